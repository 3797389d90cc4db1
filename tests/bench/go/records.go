// SPDX-License-Identifier: MIT

// Compares godeltaprof with records.h, on the same records in one run. run.sh builds and starts it.
//
//	records [-n RECORDS] [-share PERCENT] [-rounds N]
//
// Prints for each number of records and share of changed ones, with ids and without, the medians of thread CPU time in
// microseconds and of their ratios, and the sizes. The two write in turn, so each finds its caches cold. The stacks have
// 32 frames and the shape of bench.h; their call sites are in functions of this program, which imports packages that make
// it as large as a server. godeltaprof names functions, files and lines, deltaprof functions (its default).
package main

/*
#cgo LDFLAGS: -ldeltaprof
#include <deltaprof/records.h>
#include <stdlib.h>
#include <time.h>
static int count(void *ctx, const void *bytes, size_t n_bytes)
{
	*(size_t *)ctx += n_bytes;
	return 0;
}
static int write_records(struct deltaprof_delta *delta, struct deltaprof_heap_record *records, size_t n, int64_t rate, size_t *n_bytes)
{
	*n_bytes = 0;
	return deltaprof_delta_write_heap_records(delta, records, n, rate, count, n_bytes);
}
static int64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}
*/
import "C"

import (
	"debug/elf"
	"encoding/json"
	"flag"
	"fmt"
	"go/parser"
	"html/template"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/grafana/pyroscope-go/godeltaprof"
)

const (
	depth    = 32
	nSites   = 10000
	perCode  = 16 // the most call sites in a function
	stepSize = 11 // bytes between call sites
	rate     = 524288
)

var _ = []any{http.ListenAndServe, json.Marshal, parser.ParseFile, template.New}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xE9846AF9B1A615D5
	x ^= x >> 32
	x *= 0xE9846AF9B1A615D5
	return x ^ x>>28
}

// The return addresses in a function that have one frame, in no inlined function.
func sitesOf(s elf.Symbol) (sites []uintptr) {
	f := runtime.FuncForPC(uintptr(s.Value))
	if elf.ST_TYPE(s.Info) != elf.STT_FUNC || f == nil || f.Entry() != uintptr(s.Value) || strings.HasPrefix(f.Name(), "runtime.") {
		return nil
	}
	for at := uint64(9); at < s.Size && len(sites) < perCode; at += stepSize {
		frame, more := runtime.CallersFrames([]uintptr{uintptr(s.Value + at)}).Next()
		if !more && frame.Func != nil && frame.Line != 0 {
			sites = append(sites, uintptr(s.Value+at))
		}
	}
	return sites
}

func allSites() (sites []uintptr) {
	file, err := elf.Open("/proc/self/exe")
	must(err)
	symbols, err := file.Symbols()
	must(err)
	var functions [][]uintptr
	for _, s := range symbols {
		if of := sitesOf(s); len(of) > 1 {
			functions = append(functions, of)
		}
	}
	for k := 0; k < perCode; k++ {
		for _, of := range functions {
			if k < len(of) && len(sites) < nSites {
				sites = append(sites, of[k])
			}
		}
	}
	fmt.Printf("# %d call sites, %d functions\n", len(sites), len(functions))
	return sites
}

type world struct {
	ofGo []godeltaprof.Record
	ofC  []C.struct_deltaprof_heap_record
	next int
}

func (w *world) change(i int) {
	size := int64(16 + mix(uint64(i))%64*16)
	g, c := &w.ofGo[i], &w.ofC[i]
	g.AllocObjects, g.FreeObjects = g.AllocObjects+1, g.FreeObjects+1
	g.AllocBytes, g.FreeBytes = g.AllocBytes+size, g.FreeBytes+size
	c.alloc_objects, c.free_objects = C.int64_t(g.AllocObjects), C.int64_t(g.FreeObjects)
	c.alloc_bytes, c.free_bytes = C.int64_t(g.AllocBytes), C.int64_t(g.FreeBytes)
}

func (w *world) changeSome(n int) {
	for ; n > 0; n-- {
		w.change(w.next)
		w.next = (w.next + 7919) % len(w.ofGo)
	}
}

func array[T any](n int) []T {
	return unsafe.Slice((*T)(C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(*new(T))))), n)
}

func makeWorld(n int, ids bool, sites []uintptr) *world {
	w := &world{ofGo: make([]godeltaprof.Record, n), ofC: array[C.struct_deltaprof_heap_record](n)}
	stacks := array[C.uintptr_t](n * depth)
	for i := range w.ofGo {
		stack := make([]uintptr, depth)
		for k := range stack {
			level, node := uint64(depth-1-k), uint64(i)
			if level < depth-1 {
				node = mix(node) % (1 << (level / 2))
			}
			stack[k] = sites[mix(node*64+level)%uint64(len(sites))]
			stacks[i*depth+k] = C.uintptr_t(stack[k])
		}
		w.ofGo[i].Stack = stack
		w.ofC[i].stack, w.ofC[i].depth = &stacks[i*depth], depth
		if ids {
			w.ofC[i].id = C.uint64_t(uintptr(unsafe.Pointer(&w.ofC[i])))
		}
		w.change(i)
	}
	return w
}

type counter int

func (c *counter) Write(bytes []byte) (int, error) {
	*c += counter(len(bytes))
	return len(bytes), nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func measure(n, share int, ids bool, sites []uintptr, rounds int) {
	w := makeWorld(n, ids, sites)
	profiler, delta := godeltaprof.NewHeapProfiler(), C.deltaprof_delta_new(C.DELTAPROF_HEAP)
	var ofGo, ofC, ratios []float64
	var goSize counter
	var cSize C.size_t
	for round := -2; round < rounds; round++ { // two to warm up: first deltas have all records
		var goTime, cTime C.int64_t
		for k := 0; k < 1+10000/n; k++ {
			w.changeSome(n * share / 100)
			goSize = 0
			begin := C.cpu_ns()
			must(profiler.ProfileRecords(&goSize, w.ofGo, rate))
			goTime += C.cpu_ns() - begin
			begin = C.cpu_ns()
			if err := C.write_records(delta, &w.ofC[0], C.size_t(n), rate, &cSize); err != 0 {
				panic(fmt.Sprint("deltaprof: ", err))
			}
			cTime += C.cpu_ns() - begin
		}
		if round >= 0 {
			ofGo = append(ofGo, float64(goTime)/1e3/float64(1+10000/n))
			ofC = append(ofC, float64(cTime)/1e3/float64(1+10000/n))
			ratios = append(ratios, float64(goTime)/float64(cTime))
		}
	}
	C.deltaprof_delta_free(delta)
	fmt.Printf("%d records, %d %%, ids %t: godeltaprof %.1f us, deltaprof %.1f us, ratio %.1f, sizes %d %d\n",
		n, share, ids, median(ofGo), median(ofC), median(ratios), goSize, cSize)
}

func main() {
	n, share := flag.Int("n", 0, "only this number of records"), flag.Int("share", -1, "only this percentage")
	rounds := flag.Int("rounds", 9, "rounds of each measurement")
	flag.Parse()
	runtime.LockOSThread()
	sites := allSites()
	for _, records := range []int{512, 10000, 100000} {
		for _, percent := range []int{0, 2, 100} {
			for _, ids := range []bool{true, false} {
				if (*n == 0 || *n == records) && (*share < 0 || *share == percent) {
					measure(records, percent, ids, sites, *rounds)
				}
			}
		}
	}
}
