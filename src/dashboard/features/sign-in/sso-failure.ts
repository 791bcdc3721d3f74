import { formatWord } from '../../ui/index.ts';

/** What a person can do about a single sign-on that failed, by the reason in the address (SPEC 7). */
export function ssoFailureText(reason: string | undefined): string {
  if (reason === undefined) return 'Try again, or ask your administrator.';
  return `${formatWord(reason)}. Try again; if it stays so, send this reason to your administrator.`;
}
