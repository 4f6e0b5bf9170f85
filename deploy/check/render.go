package check

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Kustomize returns the objects that kustomize makes of a folder in fs, as YAML.
func Kustomize(fs filesys.FileSystem, dir string) ([]byte, error) {
	result, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize %s: %w", dir, err)
	}
	return result.AsYaml()
}

// Helm returns the objects that Helm makes of the chart in a folder, as YAML. The values override those of the chart. They are checked against its schema.
func Helm(dir, release string, values map[string]any) ([]byte, error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("helm: load %s: %w", dir, err)
	}
	if err := chart.Validate(); err != nil {
		return nil, fmt.Errorf("helm: %s: %w", dir, err)
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: release, Namespace: "push", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("helm: values of %s: %w", dir, err)
	}
	files, err := (engine.Engine{Strict: true}).RenderWithContext(context.Background(), chart, all)
	if err != nil {
		return nil, fmt.Errorf("helm: render %s: %w", dir, err)
	}
	var names []string
	for name := range files {
		if ext := path.Ext(name); ext == ".yaml" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "---\n%s\n", files[name])
	}
	return []byte(text.String()), nil
}
