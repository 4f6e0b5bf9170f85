module github.com/sluice-push/sluice/bench

go 1.26.0

require github.com/sluice-push/sluice v0.0.0-00010101000000-000000000000

replace github.com/sluice-push/sluice => ../
