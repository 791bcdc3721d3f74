import { expect } from 'chai';
import fc from 'fast-check';
import { DiagnosticLine, LOG_MESSAGE_MAX } from '../../../src/protocol/index.ts';
import { reportedLine, reportedText } from '../../../src/protocol/primitives.ts';

describe('text that a machine reports', () => {
  it('is never refused for its length: it is cut, and ends with an ellipsis', () => {
    const texts = fc.string({ unit: 'binary', minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 40 }), (text, max) => {
        for (const schema of [reportedText(max), reportedLine(max)]) {
          const kept = schema.parse(text);
          expect(kept.length).to.be.within(1, max);
          expect(/\p{Surrogate}/u.test(kept)).to.equal(false);
          if (text.length > max) expect(kept.at(-1)).to.equal('…');
        }
      }),
    );
    expect(reportedText(10).parse('x'.repeat(10))).to.equal('x'.repeat(10));
    expect(reportedText(10).parse('x'.repeat(11))).to.equal(`${'x'.repeat(9)}…`);
  });

  it('is so in a line of a diagnostic log', () => {
    const kept = DiagnosticLine.parse({
      timestamp: new Date().toISOString(),
      level: 'info',
      component: 'c'.repeat(500),
      message: 'm'.repeat(LOG_MESSAGE_MAX + 1),
      agentVersion: 'v'.repeat(500),
    });
    const { component, message, agentVersion } = kept;
    expect([component.length, message.length, agentVersion?.length]).to.deep.equal([
      100,
      LOG_MESSAGE_MAX,
      50,
    ]);
    expect(message.endsWith('m…')).to.equal(true);
  });
});
