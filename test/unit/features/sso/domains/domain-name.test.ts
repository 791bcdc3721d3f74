import { expect } from 'chai';
import { asciiDomain } from '../../../../../src/email-address.ts';
import { owningDomains, ownershipFault } from '../../../../../src/features/sso/domain.schema.ts';

describe('the name of a domain', () => {
  it('is brought to lower case and ASCII', () => {
    expect(asciiDomain('Example.COM')).to.equal('example.com');
    expect(asciiDomain('München.DE')).to.equal('xn--mnchen-3ya.de');
    expect(asciiDomain('EXAMPLE。com')).to.equal('example.com');
  });

  for (const text of [
    '',
    '.',
    'example.com.',
    '.example.com',
    'a..b',
    '-a.com',
    'a-.com',
    '*.example.com',
    '_dmarc.example.com',
    // The parser of URLs would read another host out of each of these.
    'example.com/evil.org',
    'ex%61mple.com',
    'user@example.com',
    'example.com:53',
    'example.com?x',
    'example.com#x',
    'example.com\\evil.org',
    '[::1]',
    'a b.com',
    'example.com\0',
    'example.com\n',
    `${'a'.repeat(64)}.com`,
    'xn--a',
    `${'a.'.repeat(200)}com`,
  ]) {
    it(`is not ${JSON.stringify(text.slice(0, 30))}`, () => {
      expect(asciiDomain(text)).to.equal(undefined);
    });
  }

  it('is refused if it cannot be owned', () => {
    const faults = Object.fromEntries(
      ['com', 'localhost', 'app.localhost', 'co.uk', 'github.io', 's3.amazonaws.com', '192.0.2.7'].map(
        (name) => [name, ownershipFault(name)],
      ),
    );
    const suffix = 'must not be a public suffix, under which anybody can register names';
    expect(faults).to.deep.equal({
      com: 'must have at least two labels, such as example.com',
      localhost: 'must not be localhost',
      'app.localhost': 'must not be localhost',
      'co.uk': suffix,
      'github.io': suffix,
      's3.amazonaws.com': suffix,
      '192.0.2.7': 'must be a domain, not an IP address',
    });
    for (const name of ['example.com', 'a.co.uk', 'me.github.io', 'mail.example.com', 'corp.local']) {
      expect(ownershipFault(name), name).to.equal(undefined);
    }
  });

  it('is owned by those who own its parents, down to the registered one', () => {
    expect(owningDomains('a.mail.example.co.uk')).to.deep.equal([
      'a.mail.example.co.uk',
      'mail.example.co.uk',
      'example.co.uk',
    ]);
    // The owner of amazonaws.com does not own what strangers have below its public suffix.
    expect(owningDomains('shop.s3.amazonaws.com')).to.deep.equal(['shop.s3.amazonaws.com']);
    for (const name of ['co.uk', 'localhost', 'com']) expect(owningDomains(name), name).to.deep.equal([]);
  });
});
