package executor

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// guard decides which addresses HTTP jobs can reach. A user who can submit a job must not be able to use the
// worker as a way into the worker's network.
type guard struct{ allow []netip.Prefix }

// refusal is an address that the guard refuses.
type refusal struct {
	addr  netip.Addr
	class string
}

func (r *refusal) Error() string {
	prefix := netip.PrefixFrom(r.addr, r.addr.BitLen())
	switch { // the hint names what an operator would really allow
	case r.class == "private" && r.addr.Is4() && r.addr.As4()[0] == 10:
		prefix = netip.MustParsePrefix("10.0.0.0/8")
	case r.class == "loopback" && r.addr.Is4():
		prefix = netip.MustParsePrefix("127.0.0.0/8")
	}
	return fmt.Sprintf(
		"%s is a %s address, which HTTP jobs may not reach; an operator can allow it with --http-allow %s",
		r.addr, r.class, prefix,
	)
}

// control gets from the dialer each address that it is about to connect to, after every name has been
// resolved. A check of the URL's host would check a different lookup than the one that counts (DNS
// rebinding).
func (g guard) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refusal{class: "unreadable"}
	}
	return g.check(at.Addr())
}

func (g guard) check(addr netip.Addr) error {
	plain := addr.WithZone("") // prefixes contain no address with a zone
	allowed := func(p netip.Prefix) bool { return p.Contains(plain) || p.Contains(plain.Unmap()) }
	if slices.ContainsFunc(g.allow, allowed) {
		return nil
	}
	if class := special(plain); class != "" {
		return &refusal{plain, class}
	}
	return nil
}

// special names the class of an address that is not an ordinary public one; "" if it is. In IPv6 only
// 2000::/3 is public, so everything outside it is special whether or not it is listed. Addresses that carry
// an IPv4 address inside (NAT64, 6to4, Teredo, mapped) are refused as a whole: the guard cannot know where a
// gateway sends them.
func special(addr netip.Addr) string {
	for _, s := range specials {
		if s.prefix.Contains(addr) {
			return s.class
		}
	}
	if addr.Is4() || publicIPv6.Contains(addr) {
		return ""
	}
	return "reserved"
}

var publicIPv6 = netip.MustParsePrefix("2000::/3")

type specialPrefix struct {
	prefix netip.Prefix
	class  string
}

// specials are the IANA special-purpose registries, and services that clouds put on public addresses.
var specials = func() (list []specialPrefix) {
	for _, s := range [][2]string{
		{"0.0.0.0/8", "this-network"},
		{"10.0.0.0/8", "private"},
		{"100.64.0.0/10", "carrier-grade NAT"},
		{"127.0.0.0/8", "loopback"},
		{"169.254.0.0/16", "link-local"}, // includes the metadata service of most clouds
		{"168.63.129.16/32", "cloud metadata"},
		{"172.16.0.0/12", "private"},
		{"192.0.0.0/24", "protocol"},
		{"192.0.2.0/24", "documentation"},
		{"192.31.196.0/24", "AS112"},
		{"192.52.193.0/24", "multicast tunnel"},
		{"192.88.99.0/24", "6to4 relay"},
		{"192.168.0.0/16", "private"},
		{"192.175.48.0/24", "AS112"},
		{"198.18.0.0/15", "benchmark"},
		{"198.51.100.0/24", "documentation"},
		{"203.0.113.0/24", "documentation"},
		{"224.0.0.0/4", "multicast"},
		{"255.255.255.255/32", "broadcast"},
		{"240.0.0.0/4", "reserved"},

		{"::1/128", "loopback"},
		{"::/128", "unspecified"},
		{"::ffff:0:0/96", "IPv4-mapped"},
		{"::/96", "IPv4-compatible"},
		{"64:ff9b::/96", "NAT64"},
		{"64:ff9b:1::/48", "NAT64"},
		{"100::/64", "discard"},
		{"2001::/23", "protocol"}, // Teredo, ORCHID
		{"2001:db8::/32", "documentation"},
		{"2002::/16", "6to4"},
		{"2620:4f:8000::/48", "AS112"},
		{"3fff::/20", "documentation"},
		{"fc00::/7", "private"}, // ULA
		{"fe80::/10", "link-local"},
		{"fec0::/10", "site-local"},
		{"ff00::/8", "multicast"},
	} {
		list = append(list, specialPrefix{netip.MustParsePrefix(s[0]), s[1]})
	}
	return list
}()
