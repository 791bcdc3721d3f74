import { expect } from 'chai';
import fc from 'fast-check';
import {
  parameterFaults,
  type ScriptParameter,
  ScriptParameters,
  withDefaults,
} from '../../../../src/features/scripts/script-parameters.ts';

const parsed = (parameters: unknown) => ScriptParameters.safeParse(parameters);
const faultsOf = (parameters: unknown) =>
  parsed(parameters).error?.issues.map(({ path, message }) => `${path.join('.')} ${message}`) ?? [];
const declared = (more: Partial<ScriptParameter>): ScriptParameter => ({
  name: 'A',
  type: 'text',
  description: null,
  required: false,
  defaultValue: null,
  ...more,
});
const faults = (
  parameter: Partial<ScriptParameter>,
  parameters: Record<string, string>,
  secretNames = [''],
) =>
  parameterFaults([declared(parameter)], { parameters, secretNames }).map(
    ({ path, message }) => `${path} ${message}`,
  );

describe('the parameters of a script', () => {
  it('are optional texts without more words', () => {
    expect(parsed([{ name: 'FOLDER' }]).data).to.deep.equal([declared({ name: 'FOLDER' })]);
  });

  it('have names of their own, default values of their type, and secrets none', () => {
    expect(faultsOf([{ name: 'A' }, { name: 'a' }])).to.deep.equal([
      '1.name must not have the name of another parameter, ignoring case',
    ]);
    expect(faultsOf([{ name: '1' }])[0]).to.contain('0.name must be a name');
    expect(faultsOf([{ name: 'A', type: 'number', defaultValue: 'ten' }])[0]).to.contain('must be a number');
    expect(faultsOf([{ name: 'A', type: 'boolean', defaultValue: 'yes' }])[0]).to.contain('true or false');
    expect(faultsOf([{ name: 'A', type: 'secret', defaultValue: 'x' }])[0]).to.contain('would be shown');
    expect(faultsOf([{ name: 'A', required: true, defaultValue: 'x' }])[0]).to.contain('must be left out');
    expect(faultsOf([{ name: 'A', type: 'date' }])).to.have.length(1);
    expect(faultsOf(Array.from({ length: 31 }, (_, at) => ({ name: `A${at}` })))).to.have.length(1);
  });

  it('decide which values a run may have', () => {
    expect(faults({ required: true }, {})).to.deep.equal(['parameters.A is required by the script']);
    expect(faults({ required: true }, { A: '' })).to.deep.equal([]);
    expect(faults({ type: 'number' }, { A: '1e3' })[0]).to.contain('parameters.A must be a number');
    expect(faults({ type: 'number' }, { A: '-1.5' })).to.deep.equal([]);
    expect(faults({ type: 'boolean' }, { A: 'TRUE' })).to.have.length(1);
    expect(faults({ type: 'secret', required: true }, { A: 'x' })).to.deep.equal([
      'secrets.A is required by the script',
      'parameters.A is a secret of the script: give it among the secrets',
    ]);
    expect(faults({}, {}, ['A'])).to.deep.equal([
      'secrets.A is no secret of the script: give it among the parameters',
    ]);
    expect(faults({ type: 'secret', required: true }, {}, ['A'])).to.deep.equal([]);
    expect(faults({}, { OTHER: 'x' })).to.deep.equal([]);
  });

  it('give a run that fits values that fit, and keep each that it gave', () => {
    const value = fc.oneof(fc.constantFrom('1', '-2.5', 'true', 'x', ''), fc.string({ maxLength: 5 }));
    const parameter = fc.record({
      name: fc.constantFrom('A', 'B', 'C', '__proto__'),
      type: fc.constantFrom('text', 'number', 'boolean'),
      required: fc.boolean(),
      defaultValue: fc.option(value),
    });
    const given = fc.dictionary(fc.constantFrom('A', 'B', 'C', 'D'), value);
    fc.assert(
      fc.property(fc.array(parameter, { maxLength: 3 }), given, (parameters, values) => {
        const { data } = parsed(parameters);
        if (data === undefined) return;
        const wrong = parameterFaults(data, { parameters: values, secretNames: [] });
        const settled = withDefaults(data, values);
        for (const [name, text] of Object.entries(values)) expect(settled[name]).to.equal(text);
        if (wrong.length > 0) return;
        expect(parameterFaults(data, { parameters: settled, secretNames: [] })).to.deep.equal([]);
      }),
    );
  });
});
