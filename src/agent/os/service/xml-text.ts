/** Text as the content of an XML element. Throws for characters that XML cannot hold. */
export function xmlText(text: string): string {
  if (/[\p{Cc}]/u.test(text)) throw new Error('A path with control characters cannot be in this file.');
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
