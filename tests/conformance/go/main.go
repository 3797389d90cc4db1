// SPDX-License-Identifier: MIT

// Hands the allocation records of the Go runtime to deltaprof, twice, and computes the deltas itself.
//
//	go run main.go RATE DIRECTORY
//
// Writes DIRECTORY/N.pb.gz, what deltaprof made of dump N, and prints for each dump and each stack that changed or is in use:
// `N ADDRESS,ADDRESS,... SIZE ALLOC_OBJECTS ALLOC_BYTES INUSE_OBJECTS INUSE_BYTES`. Differences are taken first and scaled then, each
// by the probability that a block of its size is sampled, and truncated, as runtime/pprof scales.
package main

/*
#cgo LDFLAGS: -ldeltaprof
#include <deltaprof/records.h>
#include <stdlib.h>
extern int takeBytes(void *ctx, void *bytes, size_t n_bytes);
static int write_records(struct deltaprof_delta *delta, struct deltaprof_heap_record *records, size_t n, int64_t rate)
{
	return deltaprof_delta_write_heap_records(delta, records, n, rate, (deltaprof_write_fn)takeBytes, NULL);
}
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

type key struct {
	stack [32]uintptr
	size  int64
}

var (
	written []byte
	kept    [][]byte
	ids     = map[key]uint64{}
	last    = map[key][2]int64{}
)

//export takeBytes
func takeBytes(ctx, bytes unsafe.Pointer, n C.size_t) C.int {
	written = append(written, C.GoBytes(bytes, C.int(n))...)
	return 0
}

//go:noinline
func small(n int) {
	for i := 0; i < n; i++ {
		kept = append(kept, make([]byte, 100))
	}
}

//go:noinline
func large(n int) {
	for i := 0; i < n; i++ {
		kept = append(kept, make([]byte, 300000+i%3*100000))
	}
}

//go:noinline
func temporary(n int) {
	for i := 0; i < n; i++ {
		block := make([]byte, 5000)
		block[i%5000] = 1
		runtime.KeepAlive(block)
		kept[i%len(kept)] = block
	}
}

func records() []runtime.MemProfileRecord {
	runtime.GC()
	runtime.GC() // what the first one freed is in the profile now
	all := make([]runtime.MemProfileRecord, 100000)
	n, ok := runtime.MemProfile(all, true)
	if !ok {
		panic("too many records")
	}
	return all[:n]
}

func scale(count, size, rate int64) (int64, int64) {
	if count == 0 || size == 0 {
		return 0, 0
	}
	if rate <= 1 {
		return count, size
	}
	factor := 1 / (1 - math.Exp(-float64(size)/float64(count)/float64(rate)))
	return int64(float64(count) * factor), int64(float64(size) * factor)
}

func dump(number int, delta *C.struct_deltaprof_delta, rate int64, directory string) {
	all := records()
	n := len(all)
	const word = unsafe.Sizeof(uintptr(0))
	out := unsafe.Slice((*C.struct_deltaprof_heap_record)(C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(C.struct_deltaprof_heap_record{})))), n)
	stacks := unsafe.Slice((*C.uintptr_t)(C.calloc(C.size_t(n*32), C.size_t(word))), n*32)
	sums := map[key][4]int64{}
	for i, r := range all {
		depth := 0
		for depth < 32 && r.Stack0[depth] != 0 {
			stacks[i*32+depth] = C.uintptr_t(r.Stack0[depth])
			depth++
		}
		size := int64(0)
		if r.AllocObjects > 0 {
			size = r.AllocBytes / r.AllocObjects
		}
		k := key{r.Stack0, size}
		if ids[k] == 0 {
			ids[k] = uint64(len(ids) + 1)
		}
		out[i].stack = &stacks[i*32]
		out[i].depth = C.size_t(depth)
		out[i].alloc_objects = C.int64_t(r.AllocObjects)
		out[i].alloc_bytes = C.int64_t(r.AllocBytes)
		out[i].free_objects = C.int64_t(r.FreeObjects)
		out[i].free_bytes = C.int64_t(r.FreeBytes)
		out[i].id = C.uint64_t(ids[k])
		s := sums[k]
		sums[k] = [4]int64{s[0] + r.AllocObjects, s[1] + r.AllocBytes, s[2] + r.InUseObjects(), s[3] + r.InUseBytes()}
	}
	written = nil
	if err := C.write_records(delta, &out[0], C.size_t(n), C.int64_t(rate)); err != 0 {
		panic(fmt.Sprint("deltaprof: ", err))
	}
	if err := os.WriteFile(filepath.Join(directory, fmt.Sprint(number, ".pb.gz")), written, 0o600); err != nil {
		panic(err)
	}
	for k, s := range sums {
		before := last[k]
		last[k] = [2]int64{s[0], s[1]}
		objects, bytes := scale(s[0]-before[0], s[1]-before[1], rate)
		inUse, inUseBytes := scale(s[2], s[3], rate)
		if objects|bytes|inUse|inUseBytes == 0 {
			continue
		}
		var stack []string
		for _, pc := range k.stack {
			if pc != 0 {
				stack = append(stack, strconv.FormatUint(uint64(pc-1), 16))
			}
		}
		fmt.Println(number, strings.Join(stack, ","), k.size, objects, bytes, inUse, inUseBytes)
	}
}

func main() {
	rate, _ := strconv.Atoi(os.Args[1])
	runtime.MemProfileRate = rate
	delta := C.deltaprof_delta_new(C.DELTAPROF_HEAP)
	small(1000)
	large(60)
	dump(1, delta, int64(rate), os.Args[2])
	small(500)
	temporary(3000)
	kept = kept[:len(kept)/2]
	dump(2, delta, int64(rate), os.Args[2])
	large(30)
	dump(3, delta, int64(rate), os.Args[2])
	C.deltaprof_delta_free(delta)
}
