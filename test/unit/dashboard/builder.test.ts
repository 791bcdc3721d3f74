import { expect } from 'chai';
import {
  customFields,
  FIELDS,
  firstValue,
  OPERATORS,
  shapeOf,
} from '../../../src/dashboard/features/filters/fields.ts';
import {
  checkConditions,
  fromQuery,
  isComplete,
  toQuery,
} from '../../../src/dashboard/features/filters/conditions.ts';
import { EXAMPLES } from '../../../src/dashboard/features/filters/examples.ts';
import { conditionFaults } from '../../../src/features/conditions/index.ts';
import { fieldNamed } from '../../../src/features/conditions/fields.ts';
import { operatorOf, operatorsOf } from '../../../src/features/conditions/operators.ts';

describe('the builder of filters', () => {
  it('offers fields that the server knows, as it knows them', () => {
    for (const { name, kind, options } of FIELDS) {
      const field = fieldNamed(name, new Map());
      expect(field?.kind, name).to.equal(kind);
      expect(field !== undefined && 'options' in field ? field.options : undefined, name).to.deep.equal(
        options,
      );
    }
  });

  for (const [kind, operators] of Object.entries(OPERATORS)) {
    it(`offers the operators of the server for ${kind}, and asks for a value if there is one`, () => {
      const field = FIELDS.find((each) => each.kind === kind)?.kind ?? 'boolean';
      expect([...operators].sort()).to.deep.equal(operatorsOf(field).sort());
      for (const operator of operators) {
        expect(operatorOf(field, operator)?.takesValue, operator).to.equal(shapeOf(operator) !== 'none');
      }
    });
  }

  it('begins conditions with values that the server takes, or asks for one', () => {
    for (const field of FIELDS) {
      for (const operator of OPERATORS[field.kind]) {
        const value = firstValue(field, operator);
        const conditions = {
          operator: 'AND' as const,
          conditions: [{ field: field.name, operator, ...(value === undefined ? {} : { value }) }],
        };
        if (!isComplete(conditions)) continue;
        expect(conditionFaults(conditions, ''), `${field.name} ${operator}`).to.deep.equal([]);
      }
    }
  });

  it('has examples that the server takes, and keeps conditions as they were', () => {
    for (const { conditions } of EXAMPLES) {
      expect(conditionFaults(conditions, '')).to.deep.equal([]);
      expect(isComplete(conditions)).to.equal(true);
      expect(checkConditions(conditions)).to.deep.equal({ conditions });
      expect(fromQuery(toQuery(conditions))).to.deep.equal(conditions);
    }
  });

  it('says what is wrong with conditions, however deep they are', () => {
    expect(checkConditions({ operator: 'AND', conditions: [] })).to.have.property('fault');
    expect(checkConditions({ operator: 'NOT', conditions: [{}] })).to.have.property('fault');
    let deep: object = { operator: 'AND', conditions: [{ field: 'hostname', operator: 'isNull' }] };
    for (let depth = 0; depth < 20_000; depth++) deep = { operator: 'AND', conditions: [deep] };
    expect(checkConditions(deep)).to.have.property('fault').that.includes('too deeply');
  });

  it('reads a custom field as text if organizations define it differently, as the server does', () => {
    const defined = (type: 'number' | 'date') => ({ key: 'rack', name: 'Rack', type });
    expect(customFields([defined('date'), defined('date')])).to.have.nested.property('[0].kind', 'datetime');
    expect(customFields([defined('date'), defined('number')])).to.have.nested.property('[0].kind', 'string');
  });
});
