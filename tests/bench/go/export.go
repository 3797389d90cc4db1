// SPDX-License-Identifier: MIT

// An addition to a copy of godeltaprof: Profile with the records given.
package godeltaprof

import (
	"io"

	"github.com/grafana/pyroscope-go/godeltaprof/internal/pprof"
)

type Record = pprof.MemProfileRecord

func (d *HeapProfiler) ProfileRecords(w io.Writer, records []Record, rate int64) error {
	gzip := d.gz.get(w)
	builder := pprof.NewProfileBuilder(w, gzip, &d.options, pprof.HeapProfileConfig(rate))
	return d.impl.WriteHeapProto(builder, records, rate)
}
