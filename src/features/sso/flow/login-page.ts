import type { SsoFailure } from './sso-failure.ts';

/** Where the dashboard shows why a sign-in failed (SPEC 7). */
export const loginPageUrl = (baseUrl: string, failure: SsoFailure): string =>
  withFailure(`${baseUrl}/login`, failure);

/** The same for a person who is signed in and links an identity to the account. */
export const profilePageUrl = (baseUrl: string, failure?: SsoFailure): string =>
  failure === undefined ? `${baseUrl}/profile?sso=linked` : withFailure(`${baseUrl}/profile`, failure);

function withFailure(page: string, { error, reason }: SsoFailure): string {
  return `${page}?${new URLSearchParams({ error, reason }).toString()}`;
}
