package sandbox

import (
	"os"
	"path/filepath"
)

// systemDirs hold programs and libraries.
func systemDirs() []string {
	dirs := []string{"/usr"}
	for _, pattern := range []string{"/bin", "/sbin", "/lib", "/lib[0-9]*", "/libx32"} {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	return dirs
}

// systemFiles are the settings that programs need to start, to name users and
// to check certificates; never all of /etc.
func systemFiles(network bool) []string {
	patterns := []string{
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/passwd", "/etc/group",
		"/etc/nsswitch.conf", "/etc/protocols", "/etc/services", "/etc/hosts", "/etc/alternatives",
		"/etc/localtime", "/etc/mime.types", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates",
		"/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/crypto-policies/back-ends",
		"/etc/java-*", "/etc/python3*", "/etc/fonts",
	}
	if network {
		patterns = append(patterns, "/etc/resolv.conf", "/etc/gai.conf", "/etc/host.conf")
	}
	var files []string
	for _, p := range patterns {
		found, _ := filepath.Glob(p)
		for _, f := range found {
			if _, err := os.Stat(f); err == nil { // not a dangling link
				files = append(files, f)
			}
		}
	}
	return files
}
