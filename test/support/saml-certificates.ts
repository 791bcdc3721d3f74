import { readFileSync } from 'node:fs';

/** Text of a file of `saml-certificates`, whose README says what each is. */
export const samlFile = (name: string): string =>
  readFileSync(new URL(`./saml-certificates/${name}`, import.meta.url), 'utf8');

export interface SigningKey {
  /** PEM, like the certificate. */
  key: string;
  certificate: string;
}

export const signingKey = (name: 'signing' | 'next' | 'foreign'): SigningKey => ({
  key: samlFile(`${name}.key`),
  certificate: samlFile(`${name}.pem`),
});
