// Package metrics exports the counters of a node to Prometheus. It is the only package that depends on an exporter: hub, gateway, API and broker
// keep their own counters and return them when asked, once a scrape. Durations go to the observers that [Metrics] gives to hub and API, and into
// histograms. One observation costs the same however many deliveries it stands for.
//
// docs/metrics.md says what each metric means. Labels are bounded: namespaces are those of the configuration; codes, kinds and methods are those
// known here, and all others count together. No label contains a channel or a client.
package metrics
