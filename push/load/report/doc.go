// Package report shows what a load run does and what came of it: a live view for terminals, a summary in text, files of results and
// their comparison, and what the run cost the host.
//
//	pids, err := report.Listeners(ctx, "127.0.0.1:8000") // the server's; an error: they are not known
//	watch, host := report.NewSampler(pids...), report.Host()
//	view := report.NewDisplay(os.Stdout, spec, &report.DisplayOptions{Width: report.Width(os.Stdout)})
//	result, err := load.Run(ctx, spec, &load.Options{
//		Progress: func(p load.Progress) { watch.Sample(time.Now()); view.Show(p) },
//		Phase:    func(p load.Phase) { watch.Phase(p, time.Now()) },
//	})
//	view.Close()
//	result.Host = &host
//	watch.Fill(result)
//	fmt.Print(report.Summary(result))
//
// Nothing here has a goroutine or a clock of its own. What is known about processes and the host comes from /proc, as Linux has it
// (proc(5)); on other systems those figures are unknown, and everything else works.
package report
