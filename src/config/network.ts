import { defineArea } from './area.ts';
import { addresses, flag, isOn } from './variables.ts';

/** Which addresses are trusted: of proxies in front of the server, and of hosts that tenants send it to. */
export const networkArea = defineArea({
  variables: {
    TRUST_PROXY_HEADERS: flag(false).describe('Take the client address from the headers of trusted proxies.'),
    TRUSTED_PROXY_CIDRS: addresses('127.0.0.1,10.0.0.0/8')
      .optional()
      .describe('The proxies in front of this server, addresses or ranges, separated by commas.'),
    TRUST_CF_CONNECTING_IP: flag(false).describe(
      'The proxies are behind the CDN that sets cf-connecting-ip.',
    ),
    SSO_ALLOWED_PRIVATE_CIDRS: addresses('10.1.2.3,10.8.0.0/16')
      .optional()
      .describe(
        'Internal addresses or ranges that single sign-on may connect to. Identity providers at other internal addresses are refused.',
      ),
    WEBHOOK_ALLOWED_PRIVATE_CIDRS: addresses('10.1.2.3,10.8.0.0/16')
      .optional()
      .describe(
        'Internal addresses or ranges that webhooks may be sent to. Receivers at other internal addresses are refused.',
      ),
    OUTBOUND_DENIED_CIDRS: addresses('192.0.2.10,198.51.100.0/24')
      .optional()
      .describe('Public addresses or ranges that URLs of tenants must not lead to.'),
  },
  conflicts: (values) =>
    isOn(values['TRUST_PROXY_HEADERS']) && values['TRUSTED_PROXY_CIDRS'] === undefined
      ? [
          'TRUSTED_PROXY_CIDRS must name the proxies when TRUST_PROXY_HEADERS is on, such as 127.0.0.1,10.0.0.0/8',
        ]
      : [],
  settings: (env) => ({
    /** The proxies whose headers are believed; empty: none. */
    trustedProxies: env.TRUST_PROXY_HEADERS ? (env.TRUSTED_PROXY_CIDRS ?? []) : [],
    trustCfConnectingIp: env.TRUST_CF_CONNECTING_IP,
    /** Which hosts the URLs of tenants may lead to (docs/decisions/outbound.md). */
    outbound: {
      ssoAllowedPrivate: env.SSO_ALLOWED_PRIVATE_CIDRS ?? [],
      webhookAllowedPrivate: env.WEBHOOK_ALLOWED_PRIVATE_CIDRS ?? [],
      denied: env.OUTBOUND_DENIED_CIDRS ?? [],
    },
  }),
});
