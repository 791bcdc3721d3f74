import { DASHBOARD_PAGES } from '../../dashboard-pages.ts';
import type { SsoFailure } from './sso-failure.ts';

/** The page of the dashboard that shows why a sign-in failed (SPEC 7). */
export const loginPageUrl = (baseUrl: string, failure: SsoFailure): string =>
  withFailure(`${baseUrl}${DASHBOARD_PAGES.signIn}`, failure);

/** The page that shows the result to a signed-in person who has linked an identity. */
export const profilePageUrl = (baseUrl: string, failure?: SsoFailure): string =>
  failure === undefined
    ? `${baseUrl}${DASHBOARD_PAGES.profile}?sso=linked`
    : withFailure(`${baseUrl}${DASHBOARD_PAGES.profile}`, failure);

function withFailure(page: string, { error, reason }: SsoFailure): string {
  return `${page}?${new URLSearchParams({ error, reason }).toString()}`;
}
