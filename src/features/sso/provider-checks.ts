import { assertEndpoints, discover, fetchKeys, readDiscovery } from './oidc-discovery.ts';
import { assertReachable, type ProviderFetch } from './provider-call.ts';
import { configurationFaults, failureSentence } from './provider-settings.ts';
import type { SsoProvider } from './sso.model.ts';
import { certificateFault, certificatesEnd } from './saml-metadata.ts';
import { SsoFailure } from './sso-failure.ts';
import type { Check } from './provider.schema.ts';

const DAY_MS = 86_400_000;
/** How early the expiry is announced, so that an administrator has time to get a new certificate. */
const CERTIFICATE_NOTICE_DAYS = 14;

/** Checks everything that a sign-in with a provider needs and that can be checked without a person. */
export async function checkProvider(
  outbound: ProviderFetch,
  provider: SsoProvider,
  now: Date,
): Promise<Check[]> {
  return provider.type === 'oidc' ? checkOidc(outbound, provider, now) : checkSaml(outbound, provider, now);
}

async function checkOidc(outbound: ProviderFetch, provider: SsoProvider, now: Date): Promise<Check[]> {
  const checks = [configurationCheck(provider, now)];
  const { issuer, authorizationUrl, tokenUrl, userinfoUrl, jwksUrl } = provider;
  if (issuer === null) return checks;
  checks.push(...(await checkDiscovery(outbound, issuer)));
  if (authorizationUrl === null || tokenUrl === null || jwksUrl === null) return checks;
  // The stored endpoints, because sign-ins use them; they may differ from those of discovery.
  const endpoints = { authorizationUrl, tokenUrl, userinfoUrl, jwksUrl };
  checks.push(
    await attempt('endpoints', () => assertEndpoints(outbound, endpoints)),
    await attempt('keys', async () => {
      const { keys } = await fetchKeys(outbound, jwksUrl);
      if (keys.length === 0) throw new SsoFailure('answer_invalid', 'the key set has no usable key');
    }),
  );
  return checks;
}

async function checkDiscovery(outbound: ProviderFetch, issuer: string): Promise<Check[]> {
  try {
    await readDiscovery(outbound, issuer);
    return [
      { name: 'discovery', ok: true },
      { name: 'issuer', ok: true },
    ];
  } catch (error) {
    if (!(error instanceof SsoFailure)) throw error;
    const message = failureSentence(error);
    return error.reason === 'issuer_mismatch'
      ? [
          { name: 'discovery', ok: true },
          { name: 'issuer', ok: false, message },
        ]
      : [{ name: 'discovery', ok: false, message }];
  }
}

async function attempt(name: Check['name'], work: () => Promise<unknown>): Promise<Check> {
  try {
    await work();
    return { name, ok: true };
  } catch (error) {
    if (!(error instanceof SsoFailure)) throw error;
    return { name, ok: false, message: failureSentence(error) };
  }
}

async function checkSaml(outbound: ProviderFetch, provider: SsoProvider, now: Date): Promise<Check[]> {
  const { certificate, ssoUrl } = provider;
  const checks = [configurationCheck(provider, now)];
  if (certificate !== null) {
    const fault = certificateFault(certificate, now);
    const notice = fault ?? expiryNotice(certificate, now);
    checks.push({
      name: 'certificate',
      ok: fault === undefined,
      ...(notice === undefined ? {} : { message: `The certificate ${notice}.` }),
    });
  }
  if (ssoUrl !== null) {
    checks.push(await attempt('ssoUrl', () => assertReachable(outbound, 'SSO URL', ssoUrl)));
  }
  return checks;
}

function configurationCheck(provider: SsoProvider, now: Date): Check {
  const faults = configurationFaults(provider, now);
  if (faults.length === 0) return { name: 'configuration', ok: true };
  const message = faults.map((fault) => `${fault.path} ${fault.message}`).join('; ');
  return { name: 'configuration', ok: false, message };
}

function expiryNotice(certificate: string, now: Date): string | undefined {
  const end = certificatesEnd(certificate);
  return end !== undefined && end.getTime() - now.getTime() < CERTIFICATE_NOTICE_DAYS * DAY_MS
    ? `expires on ${end.toISOString().slice(0, 10)}`
    : undefined;
}

/** Checks an active provider. Returns a sentence about the fault, or undefined if there is none. */
export async function faultOf(
  outbound: ProviderFetch,
  { type, issuer, certificate }: SsoProvider,
  now: Date,
): Promise<string | undefined> {
  if (type === 'saml') {
    const fault =
      certificate === null
        ? 'is missing'
        : (certificateFault(certificate, now) ?? expiryNotice(certificate, now));
    return fault && `The certificate of the identity provider ${fault}.`;
  }
  try {
    await discover(outbound, issuer ?? '');
    return undefined;
  } catch (error) {
    if (!(error instanceof SsoFailure)) throw error;
    return failureSentence(error);
  }
}
