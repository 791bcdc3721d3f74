import { formatWord } from '../../ui/index.ts';

/** What a person can do themselves, or has to ask for. Other reasons are shown by their name. */
const TEXTS: Readonly<Record<string, string>> = {
  domain_not_proven:
    'It is not proved that your mail domain belongs to this organization. Sign in with your password and link the identity in your profile; or ask an administrator to verify the domain (POST /sso/domains).',
  configurer_has_less:
    'You have more permissions than the person who has configured this identity provider. Ask an administrator with all permissions to save its settings once more.',
  invitation_required: 'You have no account here yet. Ask an administrator for an invitation.',
  account_unknown: 'You have no account here yet. Ask an administrator for an invitation.',
  session_unknown: 'The sign-in has taken too long, or was begun in another browser. Begin it again.',
  provider_changed: 'The settings of the identity provider have just been changed. Begin again.',
};

/** What a person can do about a single sign-on that failed, by the reason in the address (SPEC 7). */
export function ssoFailureText(reason: string | undefined): string {
  if (reason === undefined) return 'Try again, or ask your administrator.';
  if (Object.hasOwn(TEXTS, reason)) return TEXTS[reason] ?? '';
  return `${formatWord(reason)}. Try again; if it stays so, send this reason to your administrator.`;
}
