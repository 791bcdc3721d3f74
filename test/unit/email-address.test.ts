import { expect } from 'chai';
import fc from 'fast-check';
import { addressForm, addressForms, addressKey, EmailAddress, emailDomain } from '../../src/email-address.ts';

const accepted = (text: string) => EmailAddress.safeParse(text).data;
const faultOf = (text: string) => EmailAddress.safeParse(text).error?.issues[0]?.message;

describe('the address of a person', () => {
  it('stays as it was written if it is ordinary', () => {
    for (const address of ['Ada@Example.COM', "o'brien+x@a.example", 'a_b-c.d@localhost.localdomain']) {
      expect(accepted(address)).to.equal(address);
    }
  });

  it('has one form if it is internationalized', () => {
    const forms = [
      'user@MÜNCHEN.de',
      'user@mu\u0308nchen.de',
      'user@xn--mnchen-3ya.de',
      'user@XN--MNCHEN-3YA.de',
    ];
    for (const form of forms) expect(accepted(form), form).to.equal('user@münchen.de');
    expect(accepted('ju\u0308rgen@example.com')).to.equal('j\u00fcrgen@example.com');
    expect(accepted('почта@xn--e1afmkfd.xn--p1ai')).to.equal('почта@пример.рф');
    expect(emailDomain('user@MÜNCHEN.de')).to.equal('xn--mnchen-3ya.de');
    expect(addressForms('user@xn--mnchen-3ya.de')).to.deep.equal([
      'user@münchen.de',
      'user@xn--mnchen-3ya.de',
    ]);
  });

  it('is compared without regard to capitalization and form', () => {
    expect(addressKey('JÜRGEN@MÜNCHEN.DE')).to.equal(addressKey('ju\u0308rgen@xn--mnchen-3ya.de'));
    expect(addressKey('ΣΑΣ@example.com')).to.equal(addressKey('σασ@example.com'));
  });

  it('is not mistaken for another that looks like it or decodes to it', () => {
    const pairs: [string, string][] = [
      ['İvan@example.com', 'ivan@example.com'],
      ['\u0131van@example.com', 'ivan@example.com'],
      ['ada@xn--abc-.de', 'ada@abc.de'],
      ['ada@faß.de', 'ada@fass.de'],
      ['ada@xn--80ak6aa92e.com', 'ada@apple.com'],
      ['\u0430da@example.com', 'ada@example.com'],
      ['ａda@example.com', 'ada@example.com'],
      ['jurgen@example.com', 'jürgen@example.com'],
      ['a+b@example.com', 'a@example.com'],
    ];
    for (const [one, other] of pairs) {
      expect(addressKey(one), one).to.not.equal(addressKey(other));
      expect(addressForms(one), one).to.not.include(other);
    }
  });

  for (const text of [
    '',
    'ada',
    'ada@',
    '@example.com',
    'ada@example',
    'ada@@example.com',
    'ada@b@example.com',
    '.ada@example.com',
    'ada.@example.com',
    'a..da@example.com',
    '\u0301ada@example.com',
    'ada@192.0.2.7',
    'ada@0x7f.1',
    'ada@example.com/x',
    'ada@ex%61mple.com',
    'ada@xn--a-ecp.ru',
    'ada@xn--99999999999.com',
    'ada@xn--abc-.de',
    '😀@example.com',
    'ada＠example.com',
    `ada@${'ü'.repeat(70)}.de`,
    `${'é'.repeat(300)}@example.com`,
    `a${'\u0301\u0323'.repeat(100_000)}@example.com`,
  ]) {
    it(`is not ${JSON.stringify(text.slice(0, 30))}`, () => {
      expect(faultOf(text)).to.be.a('string');
    });
  }

  it('has no blanks, control characters or characters that are not seen, anywhere', () => {
    for (const sign of [
      '\r\n',
      '\n',
      '\0',
      ' ',
      '\t',
      '\u00a0',
      '\u2028',
      '\u202e',
      '\u2066',
      '\u200b',
      '\u00ad',
      '\u3164',
      '\ufeff',
      '\ud800',
      '\udc00',
      '\u{e0061}',
    ]) {
      for (const text of [
        `a${sign}da@example.com`,
        `ada@exa${sign}mple.com`,
        `ada@example.com${sign}`,
        `${sign}ada@example.com`,
      ]) {
        expect(faultOf(text), JSON.stringify(text)).to.contain('without blanks');
      }
    }
  });

  it('has the limit of its column after it was normalized', () => {
    expect(accepted(`${'e\u0301'.repeat(243)}@example.com`)).to.have.length(255);
    expect(faultOf(`${'e\u0301'.repeat(244)}@example.com`)).to.contain('255');
    // One character that has three in NFC.
    expect(faultOf(`${'\u{1d160}'.repeat(100)}@example.com`)).to.be.a('string');
  });

  it('keeps its form once it has it', () => {
    const label = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(label, label, fc.constantFrom('de', 'рф', 'xn--p1ai'), (local, domain, top) => {
        const form = addressForm(`${local}@${domain}.${top}`);
        expect(addressForm(form)).to.equal(form);
        for (const other of addressForms(form)) expect(addressKey(other)).to.equal(addressKey(form));
      }),
    );
  });
});
