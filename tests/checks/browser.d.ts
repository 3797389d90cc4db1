// SPDX-License-Identifier: MIT
// Names of browsers that the type checker's own library does not have.
declare var CompressionStream: any, DecompressionStream: any;
