import { AppError } from '../../../platform/errors.ts';
import type { SsoProvider } from '../providers/provider.model.ts';
import { certificateFault } from '../saml/certificate.ts';

interface Fault {
  /** The name of the field in the API. */
  path: string;
  message: string;
}

const NEEDED = {
  oidc: ['issuer', 'clientId', 'clientSecret', 'authorizationUrl', 'tokenUrl', 'jwksUrl'],
  saml: ['entityId', 'ssoUrl', 'certificate'],
} as const satisfies Record<SsoProvider['type'], readonly (keyof SsoProvider)[]>;

type Needed = (typeof NEEDED)[SsoProvider['type']][number];
type Configured = Pick<SsoProvider, 'type' | Needed>;

/** The settings that are missing or invalid, so that people cannot sign in with a provider. */
export function configurationFaults(provider: Configured, now: Date): Fault[] {
  const missing = NEEDED[provider.type]
    .filter((name) => provider[name] === null)
    .map((path): Fault => ({ path, message: 'is required' }));
  const { type, certificate } = provider;
  const message = type === 'saml' && certificate !== null ? certificateFault(certificate, now) : undefined;
  return message === undefined ? missing : [...missing, { path: 'certificate', message }];
}

/**
 * Throws if a setting that sign-ins need is missing or invalid.
 * @param among  if given, only the faults of these fields count: an expired certificate must not block other changes
 */
export function assertConfigured(provider: Configured, now: Date, among?: object): void {
  const faults = configurationFaults(provider, now).filter(
    ({ path }) => among === undefined || path in among,
  );
  if (faults.length > 0) {
    throw new AppError('validation_failed', 'Provider is not fully configured', { details: faults });
  }
}

const IDENTIFYING = {
  oidc: ['issuer', 'clientId', 'authorizationUrl', 'tokenUrl', 'userinfoUrl', 'jwksUrl'],
  saml: ['entityId', 'ssoUrl'],
} as const satisfies Record<SsoProvider['type'], readonly (keyof SsoProvider)[]>;

type Identity = Pick<SsoProvider, 'type' | (typeof IDENTIFYING)[SsoProvider['type']][number]>;

/** Whether a change selects another identity provider, so that an earlier sign-in no longer proves that it works. */
export const isAnotherIdentityProvider = (before: Identity, after: Identity): boolean =>
  IDENTIFYING[before.type].some((name) => before[name] !== after[name]);
