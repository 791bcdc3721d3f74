import { expect } from 'chai';
import fc from 'fast-check';
import {
  type CodeLanguage,
  completionPlace,
  type Declared,
  undeclaredIn,
  variableOf,
} from '../../../src/dashboard/features/scripts/parameter-text.ts';

const FOLDER: Declared = { name: 'FOLDER', type: 'text' };
const KEY: Declared = { name: 'KEY', type: 'secret' };

const undeclared = (text: string, declared: readonly Declared[], language: CodeLanguage = 'bash') =>
  undeclaredIn(text, declared, language, 100).map(({ variable }) => variable);

describe('parameters in the text of a script', () => {
  it('are found in every way of reading a variable', () => {
    const texts: [CodeLanguage, string][] = [
      ['bash', 'du "$PARAM_FOLDER" "${PARAM_FOLDER:-/var}"'],
      ['powershell', 'dir $env:PARAM_FOLDER, ${env:PARAM_FOLDER}'],
      ['python', `os.environ['PARAM_FOLDER'] + os.getenv("PARAM_FOLDER")`],
      ['cmd', 'dir %PARAM_FOLDER% !PARAM_FOLDER!'],
    ];
    for (const [language, text] of texts) {
      expect(undeclared(text, [], language), language).to.deep.equal(['PARAM_FOLDER', 'PARAM_FOLDER']);
      expect(undeclared(text, [FOLDER], language), language).to.deep.equal([]);
    }
  });

  it('are told from other variables, and secrets from parameters', () => {
    expect(undeclared('$MY_PARAM_FOLDER $PARAM_ $PARAMS_X', [])).to.deep.equal([]);
    expect(undeclared('$SECRET_FOLDER $PARAM_KEY', [FOLDER, KEY])).to.deep.equal([
      'SECRET_FOLDER',
      'PARAM_KEY',
    ]);
    expect(undeclaredIn('$SECRET_API', [], 'bash', 1)).to.deep.equal([
      { from: 1, to: 11, variable: 'SECRET_API', declares: { name: 'API', type: 'secret' } },
    ]);
  });

  it('have the case of their names ignored on Windows only', () => {
    expect(undeclared('$env:param_folder', [FOLDER], 'powershell')).to.deep.equal([]);
    expect(undeclared('echo %Param_Other%', [FOLDER], 'cmd')).to.deep.equal(['Param_Other']);
    expect(undeclared('$PARAM_folder', [FOLDER], 'bash')).to.deep.equal(['PARAM_folder']);
  });

  it('are marked at most so many times, in a text of any length', () => {
    expect(undeclaredIn('$PARAM_X '.repeat(100_000), [], 'bash', 100)).to.have.length(100);
  });

  it('are offered as the expression that reads them, or as the rest of one', () => {
    const completed = (line: string, language: CodeLanguage, isAskedFor = false) => {
      const place = completionPlace(line, language, isAskedFor);
      return place && line.slice(0, line.length - place.length) + place.insert('PARAM_X');
    };
    expect(completed('du PAR', 'bash')).to.equal('du $PARAM_X');
    expect(completed('du "$PAR', 'bash')).to.equal('du "$PARAM_X');
    expect(completed('du "${', 'bash')).to.equal('du "${PARAM_X');
    expect(completed('dir P', 'powershell')).to.equal('dir $env:PARAM_X');
    expect(completed('dir $env:', 'powershell')).to.equal('dir $env:PARAM_X');
    expect(completed('dir %P', 'cmd')).to.equal('dir %PARAM_X%');
    expect(completed('dir ', 'cmd', true)).to.equal('dir %PARAM_X%');
    expect(completed('print(', 'python', true)).to.equal("print(os.environ['PARAM_X']");
    expect(completed(`os.environ['P`, 'python')).to.equal(`os.environ['PARAM_X']`);
    expect(completed('os.getenv("', 'python')).to.equal('os.getenv("PARAM_X');
    expect(completed('du ', 'bash')).to.equal(undefined);
  });

  it('leave no mark once each that is marked is declared', () => {
    const word = fc.constantFrom('$', '%', ' ', 'PARAM_', 'SECRET_', 'param_', 'A', 'b', '_', '1', "'");
    const languages = fc.constantFrom<CodeLanguage>('bash', 'powershell', 'python', 'cmd');
    fc.assert(
      fc.property(
        fc.array(word).map((words) => words.join('')),
        languages,
        (text, language) => {
          const found = undeclaredIn(text, [], language, 1000);
          for (const { from, to, variable } of found) expect(text.slice(from, to)).to.equal(variable);
          const declared = found.map(({ declares }) => declares);
          for (const { declares, variable } of found) {
            expect(variableOf(declares).toLowerCase()).to.equal(variable.toLowerCase());
          }
          expect(undeclaredIn(text, declared, language, 1000)).to.deep.equal([]);
        },
      ),
    );
  });
});
