package check

import "regexp"

var (
	secretCommand = regexp.MustCompile(`kubectl create secret generic (\S+)((?: --from-(?:literal|file)=\S+(?: rand -hex \d+\)")?)+)`)
	secretKey     = regexp.MustCompile(`--from-(?:literal|file)=([^=\s` + "`" + `]+)`)
	metricName    = regexp.MustCompile("(?m)^\\| `(sluice_[a-z_]+)` \\|")
)

// SecretsOf returns the Secrets that the commands in a document make.
func SecretsOf(document string) Secrets {
	secrets := make(Secrets)
	for _, m := range secretCommand.FindAllStringSubmatch(document, -1) {
		for _, key := range secretKey.FindAllStringSubmatch(m[2], -1) {
			secrets[m[1]] = append(secrets[m[1]], key[1])
		}
	}
	return secrets
}

// MetricsOf returns the metrics that a document has in tables.
func MetricsOf(document string) map[string]bool {
	names := make(map[string]bool)
	for _, m := range metricName.FindAllStringSubmatch(document, -1) {
		names[m[1]] = true
	}
	return names
}
