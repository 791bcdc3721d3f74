import { type Deviation, type Edit, newXmlId, replace } from '../../../../support/saml-forge.ts';

/**
 * The eight shapes of signature wrapping (Somorovsky et al., "On Breaking SAML", 2012), and some more: each keeps what was
 * signed somewhere in the text, and shows an assertion of the attacker where a careless reader looks.
 */

const signature = (xml: string): string => /<ds:Signature .*<\/ds:Signature>/s.exec(xml)?.[0] ?? '';
const assertion = (xml: string): string => /<saml:Assertion .*<\/saml:Assertion>/s.exec(xml)?.[0] ?? '';
const without = (part: string): Edit => replace(part, '');
const asMallory: Edit = (xml) => xml.replaceAll('ada@example.com', 'mallory@example.com');
const withNewId: Edit = replace(/ID="[^"]+"/, `ID="${newXmlId()}"`);
const inside =
  (part: string, closing: string): Edit =>
  (xml) => {
    const end = xml.lastIndexOf(closing);
    if (end < 0) throw new Error(`${closing} is not in ${xml}`);
    return xml.slice(0, end) + part + xml.slice(end);
  };
const object = (part: string) => `<ds:Object>${part}</ds:Object>`;

/** The attacker's assertion, which is not signed, for the one that was. */
const forged = (xml: string): string => withNewId(asMallory(without(signature(xml))(assertion(xml))));

/** The response is signed as a whole. */
const wholeResponse = (edit: Edit): Deviation => ({ signed: ['Response'], finished: edit });
const signedAssertion = (edit: (signed: string, forged: string) => string): Deviation => ({
  finished: (xml) => replace(assertion(xml), edit(assertion(xml), forged(xml)))(xml),
});

export const WRAPPED: Readonly<Record<string, Deviation>> = {
  '1: the signed response in the signature of a new one': wholeResponse((xml) => {
    const original = without(signature(xml))(xml);
    const around = inside(object(original), '</ds:Signature>')(signature(xml));
    return replace(signature(xml), around)(withNewId(asMallory(xml)));
  }),
  '2: the signed response before its signature in a new one': wholeResponse((xml) => {
    const original = without(signature(xml))(xml);
    return replace(signature(xml), original + signature(xml))(withNewId(asMallory(xml)));
  }),
  '3: a new assertion before the signed one': signedAssertion((signed, mine) => mine + signed),
  '3b: a new assertion behind the signed one': signedAssertion((signed, mine) => signed + mine),
  '4: the signed assertion in a new one': signedAssertion((signed, mine) =>
    inside(signed, '</saml:Assertion>')(mine),
  ),
  '5: a new assertion with the signature, the original behind it': signedAssertion(
    (signed) => withNewId(asMallory(signed)) + without(signature(signed))(signed),
  ),
  '6: the original in the signature, which is in a new assertion': signedAssertion((signed) => {
    const original = without(signature(signed))(signed);
    const around = inside(original, '</ds:Signature>')(signature(signed));
    return replace(signature(signed), around)(withNewId(asMallory(signed)));
  }),
  '7: a new assertion in Extensions': {
    finished: (xml) =>
      replace('<samlp:Status>', `<samlp:Extensions>${forged(xml)}</samlp:Extensions><samlp:Status>`)(xml),
  },
  '8: the original in an Object of the signature, which is in a new assertion': signedAssertion((signed) => {
    const original = without(signature(signed))(signed);
    const around = inside(object(original), '</ds:Signature>')(signature(signed));
    return replace(signature(signed), around)(withNewId(asMallory(signed)));
  }),
  'a new assertion with the ID of the signed one': signedAssertion(
    (signed) => asMallory(without(signature(signed))(signed)) + signed,
  ),
  'the signature moved to a new assertion with the same ID': signedAssertion(
    (signed) => asMallory(signed) + without(signature(signed))(signed),
  ),
};

/** Both tricks of SAMLStorm (CVE-2025-29774 and CVE-2025-29775). */
export const SAMLSTORM: Readonly<Record<string, Deviation>> = {
  'a comment in DigestValue': {
    finished: (xml) => asMallory(replace('<ds:DigestValue>', '<ds:DigestValue><!--AAAA-->')(xml)),
  },
  'two SignedInfo': {
    finished: (xml) => {
      const info = /<ds:SignedInfo>.*<\/ds:SignedInfo>/s.exec(xml)?.[0] ?? '';
      const other = replace(/<ds:DigestValue>[^<]+/, '<ds:DigestValue>AAAA')(info);
      return asMallory(replace(info, other + info)(xml));
    },
  },
};
