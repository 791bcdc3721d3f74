/** Makes a repeated click do its work once. Also where the page is not served over TLS, which `crypto.randomUUID` needs. */
export const newIdempotencyKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
