import { expect } from 'chai';
import { performance } from 'node:perf_hooks';
import { nfcText } from '../../src/platform/http/fields.ts';
import { HostName } from '../../src/protocol/machine-identity.ts';
import { reportedName } from '../../src/protocol/primitives.ts';
import { inNfc } from '../../src/nfc.ts';

describe('text in NFC', () => {
  it('is the same from whichever form', () => {
    const texts = {
      'e\u0301cole': '\u00e9cole',
      '\u212A': 'K',
      '\u1112\u1161\u11AB': '\uD55C',
      '\ud800e\u0301': '\ud800\u00e9',
    };
    for (const [from, to] of Object.entries(texts)) {
      expect(inNfc(from)).to.equal(to);
      expect(inNfc(to)).to.equal(to);
    }
    // Letters that only look alike stay apart.
    for (const text of ['\uFB01', '\uFF41', '\u0131', '\u0130', '\u0430']) expect(inNfc(text)).to.equal(text);
  });

  it('does not take long for a text that no language has', () => {
    // Comparing each mark with each other one would take many minutes.
    const began = performance.now();
    for (const marks of [
      '\u0301\u0323'.repeat(500_000),
      '\u0301'.repeat(500_000) + '\u0323'.repeat(500_000),
    ]) {
      expect(inNfc(`a${marks}`)).to.have.length(1_000_001);
    }
    expect(inNfc(`a${'\u0301\u0323'.repeat(15)}`.repeat(10_000))).to.match(/^ạ/u);
    expect(performance.now() - began).to.be.lessThan(20_000);
  });

  it('is measured after it was normalized, and says what is wrong with it', () => {
    expect(nfcText(3).parse('e\u0301e\u0301e\u0301')).to.equal('ééé');
    expect(nfcText(3).safeParse('\u{1d160}\u{1d160}').success).to.equal(false);
    for (const bad of ['', '  ', '\0', '\ud800']) {
      expect(nfcText(3).safeParse(bad).success, JSON.stringify(bad)).to.equal(false);
    }
  });

  it('is kept of a machine that reports more or less than can be stored', () => {
    expect(reportedName(5).parse('e\u0301\0\ud800')).to.equal('é\ufffd\ufffd');
    expect(reportedName(5).parse('e\u0301'.repeat(1000))).to.equal('éééé…');
    expect(HostName.parse('e\u0301cole\u202e')).to.equal('école');
    expect(HostName.parse(`a${'\u0301'.repeat(100_000)}`)).to.have.length(255);
  });
});
