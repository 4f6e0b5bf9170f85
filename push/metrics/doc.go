// Package metrics shows what a node counts to Prometheus. It is the only package that knows an exporter: hub, gateway, API and broker keep
// counters of their own and say what they are when they are asked, which is once a scrape. What takes how long is told to the observers
// that [Metrics] gives to hub and API, and kept in histograms that cost the same however many deliveries an observation stands for.
//
// docs/metrics.md says what each metric means. Labels are bounded: namespaces are those of the configuration; codes, kinds and methods are those that
// are known here, all others count together. Nothing is labelled by channel or client.
package metrics
