import { expect } from 'chai';
import { buildGraph } from '../../contract/import-graph.ts';
import { concernedTests } from '../../support/runner/changed-programs.ts';

const FILES = {
  'src/features/backup/jobs/job.ts': '',
  'src/features/backup/care/watch.ts': '',
  'src/agent/capabilities/update/updater.ts': '',
  'src/platform/ids.ts': '',
  'test/support/program.ts': '',
  'test/programs/bench.ts': `import '../../src/platform/ids.ts'; import '../support/program.ts'`,
  'test/programs/features/backup/store.test.ts': '',
  'test/programs/agent/capabilities/update/update.test.ts': '',
  'test/programs/e2e/server.test.ts': `import '../bench.ts'`,
  'test/programs/e2e/other.test.ts': '',
};
const graph = buildGraph(new Map(Object.entries(FILES)), () => false);
const concerned = (...changed: string[]) => concernedTests(graph, new Set(changed));

describe('the tests of programs that a change concerns', () => {
  it('are those whose own file has changed', () => {
    expect(concerned('test/programs/e2e/other.test.ts')).to.deep.equal(['test/programs/e2e/other.test.ts']);
  });

  it('are those that import a file which has changed, through files of their tier', () => {
    expect(concerned('test/programs/bench.ts')).to.deep.equal(['test/programs/e2e/server.test.ts']);
    expect(concerned('src/platform/ids.ts')).to.deep.equal(['test/programs/e2e/server.test.ts']);
  });

  it('are those named after the part of the house that has changed, at any depth', () => {
    expect(concerned('src/features/backup/care/watch.ts')).to.deep.equal([
      'test/programs/features/backup/store.test.ts',
    ]);
    expect(concerned('src/agent/capabilities/update/gone.ts')).to.deep.equal([
      'test/programs/agent/capabilities/update/update.test.ts',
    ]);
  });

  it('are none if documents or the support of all tests has changed', () => {
    expect(concerned('docs/security.md', 'test/support/program.ts')).to.deep.equal([]);
  });
});
