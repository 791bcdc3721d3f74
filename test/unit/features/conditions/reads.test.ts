import { expect } from 'chai';
import fc from 'fast-check';
import { type MatchableDevice, parseConditions } from '../../../../src/features/conditions/index.ts';
import { alone, condition, group } from '../../../support/conditions/any-rule.ts';
import { CUSTOM_KINDS, device, NOW } from '../../../support/conditions/rule-fleet.ts';

describe('what conditions read', () => {
  const parsed = (rule: object) => {
    const answer = parseConditions(rule, { customKinds: CUSTOM_KINDS });
    if (!answer.ok) throw new Error(JSON.stringify(answer.faults));
    return answer.conditions;
  };
  const drawn = device.map((one): MatchableDevice => ({ ...one, id: 'device' }));

  it('decides: two devices that are alike in it get the same answer, however they differ', () => {
    let differing = 0;
    fc.assert(
      fc.property(fc.oneof(condition.map(alone), group), drawn, drawn, (rule, one, other) => {
        const conditions = parsed(rule);
        const alike = { ...other };
        for (const part of conditions.reads) Object.assign(alike, { [part]: one[part] });
        const answer = conditions.matches(one, NOW);
        expect(conditions.matches(alike, NOW)).to.equal(answer);
        if (conditions.matches(other, NOW) !== answer) differing += 1;
      }),
      { numRuns: 3000 },
    );
    // Of devices that all get the same answer anyway nothing would follow.
    expect(differing).to.be.greaterThan(300);
  });

  it('is no more than that: a change of what people name machines does not concern a filter of tags', () => {
    const reads = (...fields: string[]) => [
      ...parsed({
        operator: 'OR',
        conditions: fields.map((field) => ({ field, operator: 'isNotNull' })),
      }).reads,
    ];
    expect(reads('tags')).to.deep.equal(['tags']);
    expect(reads('hostname', 'displayName')).to.deep.equal(['hostname', 'displayName']);
    expect(reads('hardware.model', 'hardware.cpuCores')).to.deep.equal(['hardware']);
    expect(reads('daysSinceLastSeen', 'lastSeenAt')).to.deep.equal(['lastSeenAt']);
    expect(reads('custom.a', 'custom.b', 'groupId')).to.deep.equal(['customFields', 'groupIds']);
    expect([...parsed(alone({ field: 'custom.a.b', operator: 'isNull' })).customFields]).to.deep.equal([
      'a.b',
    ]);
  });
});
