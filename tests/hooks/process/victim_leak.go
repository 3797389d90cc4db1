// SPDX-License-Identifier: MIT

// victim_leak keeps a megabyte of C memory every 10 ms until its standard input ends. Its threads are made by the
// runtime, before main.
package main

/*
#include <stdlib.h>
#include <string.h>
static void *volatile kept;
static void leak(void) { kept = memset(malloc(1 << 20), 1, 1 << 20); }
*/
import "C"

import (
	"io"
	"os"
	"time"
)

func main() {
	go func() {
		for i := 0; i < 500; i++ {
			C.leak()
			time.Sleep(10 * time.Millisecond)
		}
	}()
	io.ReadAll(os.Stdin)
	os.Exit(5)
}
