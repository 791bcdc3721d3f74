const ADDRESS = /\b([a-z][a-z0-9+.-]*:\/\/)([^\s/@"']+)@/gi;
/** Control characters, except line breaks and tabs. */
const CONTROL = /[^\P{Cc}\n\t]/gu;
const MAX_LENGTH = 2000;

/** Text of a program as it may be logged: without the secrets that it was given, and without names in addresses. */
export function maskSecrets(text: string, secrets: readonly string[]): string {
  const ordered = secrets.filter((secret) => secret !== '').sort((a, b) => b.length - a.length);
  const masked = ordered.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
  return masked.replace(ADDRESS, '$1***@').replace(CONTROL, ' ').slice(0, MAX_LENGTH);
}
