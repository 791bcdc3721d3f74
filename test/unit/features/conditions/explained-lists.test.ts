import { expect } from 'chai';
import fc from 'fast-check';
import { parseConditions } from '../../../../src/features/conditions/index.ts';
import { alone } from '../../../support/conditions/any-rule.ts';
import { CUSTOM_KINDS, device, NOW } from '../../../support/conditions/rule-fleet.ts';

describe('the value that a condition has seen', () => {
  const explain = (values: string[], rule: Parameters<typeof alone>[0]) => {
    const parsed = parseConditions(alone(rule), { customKinds: CUSTOM_KINDS });
    const [one] = fc.sample(device, 1);
    if (!parsed.ok || one === undefined) throw new Error('The condition or the device is missing.');
    const [explained] = parsed.conditions.explain(
      { ...one, id: 'device', software: values, tags: values },
      NOW,
    );
    return { value: explained?.value, valueCount: explained?.valueCount };
  };
  const names = (count: number) => Array.from({ length: count }, (_, at) => `program ${at}`);
  const rules = [
    { field: 'software.installed', operator: 'contains', value: 'program' },
    { field: 'tags', operator: 'hasAny', value: ['program 1'] },
  ];

  it('is a whole list, within what is shown', () => {
    for (const rule of rules) {
      expect(explain(names(100), rule)).to.deep.equal({ value: names(100), valueCount: undefined });
    }
  });

  it('is the beginning of a longer list, with the number of its values', () => {
    for (const rule of rules) {
      expect(explain(names(3000), rule)).to.deep.equal({ value: names(100), valueCount: 3000 });
    }
  });
});
