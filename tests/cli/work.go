// SPDX-License-Identifier: MIT

// A Go program that allocates and contends, and dumps heap, mutex and block profiles between its turns.
//
//	work DIR TURNS
package main

import (
	"log"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

var kept [][]byte
var mu sync.Mutex

func small(n int) {
	for i := 0; i < n; i++ {
		kept = append(kept, make([]byte, 100+i%1000))
	}
}

func large(n int) {
	for i := 0; i < n; i++ {
		kept = append(kept, make([]byte, 5000+i))
	}
}

func deeper(depth, n int) {
	if depth > 0 {
		deeper(depth-1, n)
		return
	}
	small(n)
}

func allocate(turn int) {
	for i := 0; i < 20*turn; i++ {
		deeper(i, 50)
		large(10)
	}
	kept = kept[:len(kept)/2]
}

func contend(n int) {
	var done sync.WaitGroup
	for i := 0; i < 4; i++ {
		done.Add(1)
		go func() {
			defer done.Done()
			for j := 0; j < n; j++ {
				mu.Lock()
				time.Sleep(100 * time.Microsecond)
				mu.Unlock()
			}
		}()
	}
	done.Wait()
}

func main() {
	turns, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	runtime.MemProfileRate = 512
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	for turn := 1; turn <= turns; turn++ {
		allocate(turn)
		contend(10 * turn)
		runtime.GC()
		for _, kind := range []string{"heap", "mutex", "block"} {
			f, err := os.Create(filepath.Join(os.Args[1], kind+"."+strconv.Itoa(turn)+".pb.gz"))
			if err != nil {
				log.Fatal(err)
			}
			if err := pprof.Lookup(kind).WriteTo(f, 0); err != nil {
				log.Fatal(err)
			}
			if err := f.Close(); err != nil {
				log.Fatal(err)
			}
		}
	}
}
