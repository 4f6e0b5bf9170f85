package check

import (
	"slices"
	"strings"
)

// Dockerfile checks that the images that a Dockerfile builds on are pinned, that its stages exist, and that the last one runs as a user with a number other
// than root. goVersion is the version of Go that go.mod asks for, such as 1.26.
func Dockerfile(text, goVersion string) []string {
	var found problems
	var stages []string
	user := ""
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		words := strings.Fields(line)
		if len(words) < 2 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch words[0] {
		case "FROM":
			user = ""
			if image := words[1]; image != "scratch" && !Pinned(image) {
				found.add("the image %q has no version", image)
			} else if version, ok := strings.CutPrefix(image, "golang:"); ok && !strings.HasPrefix(version, goVersion+".") {
				found.add("it builds with Go %s, but go.mod asks for %s", version, goVersion)
			}
			if len(words) == 4 && words[2] == "AS" {
				stages = append(stages, words[3])
			}
		case "COPY":
			for _, word := range words {
				if stage, ok := strings.CutPrefix(word, "--from="); ok && !slices.Contains(stages, stage) {
					found.add("there is no stage %q", stage)
				}
			}
		case "USER":
			user = words[1]
		}
	}
	if user == "" || strings.HasPrefix(user, "0") || strings.Trim(user, "0123456789:") != "" {
		found.add("it runs as %q: Kubernetes knows only of numbers that they are not root", user)
	}
	return found
}
