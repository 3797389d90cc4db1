// SPDX-License-Identifier: MIT

// The golden difference: google/pprof's own Merge, with the old profile scaled by -1 on flows and by 0 on the others.
//
//	merge OLD NEW OUT [TYPE...]    TYPE: a sample type that is a flow
package main

import (
	"log"
	"os"

	"github.com/google/pprof/profile"
)

func read(name string) *profile.Profile {
	f, err := os.Open(name)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return p
}

func main() {
	before, after := read(os.Args[1]), read(os.Args[2])
	flows := map[string]bool{}
	for _, name := range os.Args[4:] {
		flows[name] = true
	}
	ratios := make([]float64, len(before.SampleType))
	for i, t := range before.SampleType {
		if flows[t.Type] {
			ratios[i] = -1
		}
	}
	if err := before.ScaleN(ratios); err != nil {
		log.Fatal(err)
	}
	merged, err := profile.Merge([]*profile.Profile{before, after})
	if err != nil {
		log.Fatal(err)
	}
	out, err := os.Create(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	if err := merged.Write(out); err != nil {
		log.Fatal(err)
	}
	if err := out.Close(); err != nil {
		log.Fatal(err)
	}
}
