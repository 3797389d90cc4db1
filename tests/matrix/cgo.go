// SPDX-License-Identifier: MIT

// cgo - goroutines that allocate in C, keep some, free them in other threads, and collect Go's own garbage meanwhile.
package main

/*
#include <stdlib.h>
#include <string.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;

static char *cgo_make(size_t n) {
	char *p = malloc(n);
	memset(p, 1, n);
	pthread_mutex_lock(&lock);
	total += (long)n;
	pthread_mutex_unlock(&lock);
	return p;
}
static long cgo_total(void) { return total; }
*/
import "C"

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"unsafe"
)

func main() {
	pass := make(chan *C.char, 64)
	var makers, takers sync.WaitGroup
	sum := make([]int, 4)
	for i := 0; i < 8; i++ {
		makers.Add(1)
		go func(i int) {
			defer makers.Done()
			for j := 0; j < 500; j++ {
				pass <- C.cgo_make(C.size_t(j%300 + i + 1))
				if j%100 == 0 {
					runtime.GC()
				}
			}
		}(i)
	}
	for i := range sum {
		takers.Add(1)
		go func(i int) {
			defer takers.Done()
			for p := range pass {
				sum[i] += int(*p)
				C.free(unsafe.Pointer(p))
			}
		}(i)
	}
	makers.Wait()
	close(pass)
	takers.Wait()
	out, err := exec.Command("/bin/echo", "a child").Output()
	fmt.Println(sum[0]+sum[1]+sum[2]+sum[3], C.cgo_total(), string(out), err)
}
