// SPDX-License-Identifier: MIT
//! Finds libdeltaprof: in DELTAPROF_LIB_DIR, or where pkg-config says, or where the linker looks by itself.
use std::env;
use std::process::Command;

fn pkg_config() -> Option<String> {
    let said = Command::new("pkg-config").args(["--variable=libdir", "deltaprof"]).output().ok()?;
    let dir = String::from_utf8(said.stdout).ok()?.trim().to_string();
    (said.status.success() && !dir.is_empty()).then_some(dir)
}

fn main() {
    println!("cargo:rerun-if-env-changed=DELTAPROF_LIB_DIR");
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(dir) = env::var("DELTAPROF_LIB_DIR").ok().or_else(pkg_config) {
        println!("cargo:rustc-link-search=native={dir}");
    }
    if env::var_os("CARGO_FEATURE_STATIC").is_some() {
        println!("cargo:rustc-link-lib=static=deltaprof");
        println!("cargo:rustc-link-lib=pthread");
        println!("cargo:rustc-link-lib=dl");
    } else {
        println!("cargo:rustc-link-lib=deltaprof");
    }
    // Without optimization the compiler's own function stands between a caller and the allocator.
    let is_plain = env::var("OPT_LEVEL").as_deref() == Ok("0");
    println!("cargo:rustc-env=DELTAPROF_PLAIN_CALLS={}", if is_plain { "yes" } else { "no" });
}
