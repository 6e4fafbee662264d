# shellcheck shell=bash
# Debian's source packages, for what is built into the cache. Sourced.

# fetch_source <package> <work folder>: unpacks it into <work>/source and writes its version to <work>/version. The machine's own
# Debian sources are asked; lists and caches stay apart from the system's. A mirror may not have the newest version's files, so
# older ones are tried too.
fetch_source() {
    # shellcheck disable=SC2016 # apt's own notation
    local package="$1" work="$2" version format='$(RELEASE) $(COMPONENT) $(REPO_URI)'
    local options=(-q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=-
        -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=)
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" &&
        apt-get indextargets --format "$format" 'Created-By: Packages' 'Origin: Debian' | sort -u |
        awk '{print "deb-src", $3, $1, $2}' >"$work/sources.list" &&
        cd "$work" &&
        apt-get "${options[@]}" update || return 1
    for version in $(apt-cache "${options[@]}" showsrc "$package" | sed -n 's/^Version: //p' | sort -Vru); do
        if apt-get "${options[@]}" --download-only source "$package=$version"; then
            echo "$version" >"$work/version"
            dpkg-source --no-check -x "${package}_${version#*:}.dsc" source
            return
        fi
    done
    return 1
}
