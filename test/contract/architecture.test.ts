import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { arrowsOf, drawPicture, staleParts } from './architecture-picture.ts';
import { buildGraph, type Graph } from './import-graph.ts';
import { projectGraph, root } from './project-graph.ts';

describe('the picture of the architecture', () => {
  let graph: Graph;
  // Reading all sources takes longer than a test may.
  before(() => {
    graph = projectGraph();
  });

  it('shows the parts, rooms and imports of the code (npm run docs draws it)', () => {
    const faults = staleParts(readFileSync(join(root, 'docs/architecture.md'), 'utf8'), graph);
    expect(faults, `\n${faults.join('\n')}\n`).to.deep.equal([]);
  });

  const house = {
    'src/main.ts': `import './server.ts'; import './platform/ids.ts'`,
    'src/server.ts': `import './hub/index.ts'`,
    'src/hub/index.ts': `import './wire/frame.ts'`,
    'src/hub/wire/frame.ts': `import '../../platform/ids.ts'; import '../../clock.ts'`,
    'src/platform/ids.ts': '',
    'src/clock.ts': '',
    'src/dashboard/main.tsx': `import type { A } from '../hub/index.ts'`,
  };
  const plant = (files: Record<string, string>): Graph =>
    buildGraph(new Map(Object.entries(files)), () => false);

  it('leaves out an arrow that follows from others, and marks imports of types', () => {
    expect(arrowsOf(plant(house))).to.deep.equal([
      { from: 'dashboard', to: 'hub', typeOnly: true },
      { from: 'hub', to: 'platform', typeOnly: false },
      { from: 'main', to: 'server', typeOnly: false },
      { from: 'server', to: 'hub', typeOnly: false },
    ]);
  });

  it('is out of date after a new room, a new arrow, or many new files', () => {
    const page = `Text.\n\n${drawPicture(plant(house))}\n`;
    expect(staleParts(page, plant(house))).to.deep.equal([]);
    const room = plant({ ...house, 'src/hub/feed/cluster-feed.ts': '' });
    expect(staleParts(page, room)).to.have.length(2);
    const arrow = plant({
      ...house,
      'src/server.ts': `import './hub/index.ts'; import './engine/index.ts'`,
      'src/engine/index.ts': '',
    });
    expect(staleParts(page, arrow)).to.include('the page lacks: server --> engine');
    const many = Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`src/platform/${at}.ts`, '']));
    expect(staleParts(page, plant({ ...house, ...many }))).to.deep.equal([
      'platform has 10 files, and the page says 1',
    ]);
  });
});
