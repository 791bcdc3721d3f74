/** Names and URIs that the SAML 2.0 standards define. */

export const NAMESPACE = {
  assertion: 'urn:oasis:names:tc:SAML:2.0:assertion',
  protocol: 'urn:oasis:names:tc:SAML:2.0:protocol',
  metadata: 'urn:oasis:names:tc:SAML:2.0:metadata',
  signature: 'http://www.w3.org/2000/09/xmldsig#',
} as const;

export const REDIRECT_BINDING = 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect';
export const BEARER = 'urn:oasis:names:tc:SAML:2.0:cm:bearer';
export const SUCCESS = 'urn:oasis:names:tc:SAML:2.0:status:Success';

export const NAME_ID_FORMAT = {
  email: 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress',
  transient: 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient',
} as const;

const EXCLUSIVE_FORM = 'http://www.w3.org/2001/10/xml-exc-c14n#';

/**
 * The permitted algorithms of each element of a signature. SHA-1 is missing, and so are transforms that could hide text
 * from the signature.
 */
export const SIGNATURE_ALGORITHMS: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries({
    CanonicalizationMethod: [EXCLUSIVE_FORM, `${EXCLUSIVE_FORM}WithComments`],
    SignatureMethod: [
      'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256',
      'http://www.w3.org/2001/04/xmldsig-more#rsa-sha512',
    ],
    DigestMethod: ['http://www.w3.org/2001/04/xmlenc#sha256', 'http://www.w3.org/2001/04/xmlenc#sha512'],
    Transform: [
      'http://www.w3.org/2000/09/xmldsig#enveloped-signature',
      EXCLUSIVE_FORM,
      `${EXCLUSIVE_FORM}WithComments`,
    ],
  }),
);

/** AuthnContextClassRef, or a value of `AUTHENTICATION_METHODS`, of people who have used a second factor. */
export const MULTI_FACTOR: readonly string[] = [
  'https://refeds.org/profile/mfa',
  'http://schemas.microsoft.com/claims/multipleauthn',
];
export const AUTHENTICATION_METHODS = 'http://schemas.microsoft.com/claims/authnmethodsreferences';

const CLAIM = 'http://schemas.xmlsoap.org/ws/2005/05/identity/claims';

/**
 * The standard attributes for address, name and groups, used if those of the provider's mapping are missing (SPEC
 * 2.11).
 */
export const STANDARD_ATTRIBUTES = {
  // AD FS often sends only the user principal name, which has the form of an address.
  email: [`${CLAIM}/emailaddress`, 'urn:oid:0.9.2342.19200300.100.1.3', `${CLAIM}/upn`],
  // Some providers send the sign-in name in the claim `name`, so an attribute that is certainly a name comes first.
  name: ['urn:oid:2.16.840.1.113730.3.1.241', `${CLAIM}/name`],
  firstName: [`${CLAIM}/givenname`, 'urn:oid:2.5.4.42'],
  lastName: [`${CLAIM}/surname`, 'urn:oid:2.5.4.4'],
  groups: [
    'http://schemas.microsoft.com/ws/2008/06/identity/claims/groups',
    'http://schemas.xmlsoap.org/claims/Group',
  ],
} as const;
