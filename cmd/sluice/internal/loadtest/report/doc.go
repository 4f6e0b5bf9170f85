// Package report presents the progress and the result of a load test. It has a live view for terminals, a summary as text, result files and
// their comparison, and a sampler for the resources that a run uses.
//
//	pids, err := report.Listeners(ctx, "127.0.0.1:8000") // the processes of the server; after an error they are unknown
//	sampler, host := report.NewSampler(pids...), report.Host()
//	view := report.NewDisplay(os.Stdout, spec, &report.DisplayOptions{Width: report.Width(os.Stdout)})
//	result, err := loadtest.Run(ctx, spec, &loadtest.Options{
//		Progress: func(p loadtest.Progress) { sampler.Sample(time.Now()); view.Show(p) },
//		Phase:    func(p loadtest.Phase) { sampler.Phase(p, time.Now()) },
//	})
//	view.Close()
//	result.Host = &host
//	sampler.Fill(result)
//	fmt.Print(report.Summary(result))
//
// The package has no goroutines and reads no clock. The figures of processes and the host come from /proc on Linux (proc(5)). On other systems
// they are unknown, and everything else works.
package report
