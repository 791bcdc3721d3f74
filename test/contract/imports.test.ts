import { expect } from 'chai';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Graph, buildGraph } from './import-graph.ts';
import * as rules from './import-rules.ts';
import { isSource, projectGraph, root } from './project-graph.ts';

/** The same files, counted in another way. */
function countedByNode(): number {
  const entries = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
  return entries.filter(isSource).length;
}

describe('imports', () => {
  const graph = projectGraph();
  const none = (faults: string[]): void => {
    expect(faults, `\n${faults.join('\n')}\n`).to.deep.equal([]);
  };

  it('are known of every file below src, and all lead somewhere', () => {
    const seen = [...graph.keys()].filter((path) => path.startsWith('src/')).length;
    expect(seen).to.be.greaterThan(0);
    expect(seen).to.equal(countedByNode());
    none(rules.unresolved(graph));
  });

  it('go from main to server to features to hub to platform, never back', () => {
    none([...rules.strayFiles(graph), ...rules.wrongDirection(graph)]);
  });

  it('bring few packages into the protocol, the configuration, the engine and the client', () => {
    none(rules.wrongPackages(graph));
  });

  it('enter a folder that has an index.ts through that file only, at every depth', () => {
    none(rules.aroundTheDoor(graph));
  });

  it('make no circles between the folders of one folder', () => {
    none(rules.roomCircles(graph));
  });

  it('go down through the rooms of the agent, and never from one capability to another', () => {
    none(rules.upwardInAgent(graph));
  });

  it('go down through the rooms of the dashboard', () => {
    none(rules.upwardInDashboard(graph));
  });

  it('keep express, socket.io, ioredis and knex each in one place', () => {
    none(rules.awayFromHome(graph));
  });

  it('leave the environment to the configuration and the programs on devices', () => {
    none(rules.environmentReaders(graph));
  });

  it('never lead back to where they come from', () => {
    none(rules.cycles(graph));
  });
});

describe('import rules', () => {
  const plant = (files: Record<string, string>): Graph => {
    return buildGraph(new Map(Object.entries(files)), (path) => path.endsWith('.json'));
  };
  /** A file that imports, and what it imports, which is empty. */
  const pair = (from: string, statement: string, to: string): Graph => plant({ [from]: statement, [to]: '' });

  it('see every way of importing', () => {
    const { imports } = [
      ...plant({
        'src/agent/a.ts': `import './b.ts'; import type { B } from './b.ts'; import { type C } from './b.ts';
          export * from './b.ts'; export { d } from './b.ts'; export type { E } from './b.ts';
          await import('./b.ts'); await import(\`./b.ts\`); type F = import('./b.ts').F; require('./b.ts');`,
        'src/agent/b.ts': '',
      }).values(),
    ][0] ?? { imports: [] };
    expect(imports.map(({ target }) => target)).to.deep.equal(Array(10).fill('src/agent/b.ts'));
    expect(imports.filter(({ typeOnly }) => typeOnly)).to.have.length(4);
  });

  const upward: [string, string, string][] = [
    ['src/platform/db/pool.ts', `import '../../features/sites/index.ts'`, 'src/features/sites/index.ts'],
    ['src/platform/ids.ts', `import type { A } from '../protocol/index.ts'`, 'src/protocol/index.ts'],
    ['src/platform/ids.ts', `export { a } from '../config.ts'`, 'src/config.ts'],
    ['src/hub/index.ts', `await import('../features/index.ts')`, 'src/features/index.ts'],
    ['src/features/sites/index.ts', `import '../../server.ts'`, 'src/server.ts'],
    ['src/features/sites/index.ts', `import '../../config.ts'`, 'src/config.ts'],
    ['src/server.ts', `import './main.ts'`, 'src/main.ts'],
    ['src/main.ts', `import './agent/main.ts'`, 'src/agent/main.ts'],
    ['src/protocol/a.ts', `import '../platform/ids.ts'`, 'src/platform/ids.ts'],
    ['src/agent/a.ts', `type A = import('../platform/ids.ts').A`, 'src/platform/ids.ts'],
    ['src/dashboard/a.ts', `import '../features/sites/site.schema.ts'`, 'src/features/sites/site.schema.ts'],
    [
      'src/dashboard/a.ts',
      `import type { A } from '../features/sites/index.ts'`,
      'src/features/sites/index.ts',
    ],
    ['src/config.ts', `import './platform/ids.ts'`, 'src/platform/ids.ts'],
    ['src/watchdog/a.ts', `import '../agent/core/b.ts'`, 'src/agent/core/b.ts'],
    ['src/watchdog/a.ts', `import '../platform/ids.ts'`, 'src/platform/ids.ts'],
    ['src/agent/os/a.ts', `import '../../watchdog/b.ts'`, 'src/watchdog/b.ts'],
    ['src/engine/a.ts', `import '../platform/ids.ts'`, 'src/platform/ids.ts'],
    ['src/engine/a.ts', `import type { A } from '../agent/a.ts'`, 'src/agent/a.ts'],
    ['src/hub/a.ts', `import '../engine/index.ts'`, 'src/engine/index.ts'],
    ['clients/a.ts', `import '../src/dashboard/api/client.ts'`, 'src/dashboard/api/client.ts'],
    ['clients/a.ts', `import type { A } from '../src/hub/index.ts'`, 'src/hub/index.ts'],
    ['src/dashboard/a.ts', `import '../../clients/a.ts'`, 'clients/a.ts'],
  ];
  for (const [from, statement, to] of upward) {
    it(`find ${from} with ${statement}`, () => {
      expect(rules.wrongDirection(pair(from, statement, to))).to.deep.equal([`${from} → ${to}`]);
    });
  }

  it('allow what goes down, the protocol, and types of schemas for the dashboard', () => {
    const graph = plant({
      'src/main.ts': `import './server.ts'; import './config.ts'; import manifest from '../package.json'`,
      'src/server.ts': `import './features/index.ts'; import './hub/index.ts'`,
      'src/cli/demo.ts': `import '../server.ts'`,
      'src/features/index.ts': `import './sites/index.ts'`,
      'src/features/sites/index.ts': `import '../../hub/ports.ts'; import './site.schema.ts'; import '../users/index.ts'`,
      'src/features/sites/site.schema.ts': `import 'zod'`,
      'src/features/users/index.ts': '',
      'src/hub/index.ts': `import './registry.ts'`,
      'src/hub/registry.ts': `import '../platform/ids.ts'; import '../protocol/index.ts'`,
      'src/hub/ports.ts': '',
      'src/platform/ids.ts': '',
      'src/protocol/index.ts': `import 'zod'`,
      'src/config.ts': `import 'zod'; import 'node:fs'; process.env`,
      'clients/a.ts': `import '../src/protocol/index.ts'; import '../src/dashboard/api/typed-route.ts'`,
      'src/dashboard/api/typed-route.ts': '',
      'src/dashboard/main.ts': `import type { Site } from '../features/sites/site.schema.ts'`,
      'knexfile.ts': `import type { Knex } from 'knex'; import './src/config.ts'`,
    });
    for (const rule of Object.values(rules).filter((rule) => rule !== rules.zoneOf)) {
      expect((rule as (graph: Graph) => string[])(graph)).to.deep.equal([]);
    }
  });

  it('find a file that belongs to no part', () => {
    expect(rules.strayFiles(plant({ 'src/utils/a.ts': '', 'src/other.ts': '' }))).to.have.length(2);
  });

  it('find another package in the protocol, the configuration or the engine', () => {
    const graph = plant({
      'src/protocol/a.ts': `import 'node:fs'`,
      'src/config.ts': `import 'pino'`,
      'src/engine/a.ts': `import 'pino'; import 'node:fs'`,
      'clients/a.ts': `import 'node:fs'; import 'socket.io-client'; import 'zod'`,
    });
    expect(rules.wrongPackages(graph)).to.deep.equal([
      'src/protocol/a.ts → node:fs',
      'src/config.ts → pino',
      'src/engine/a.ts → pino',
      'clients/a.ts → node:fs',
    ]);
  });

  it('find a way around the door of a feature or the hub', () => {
    const from = 'src/features/sites/site.service.ts';
    for (const to of ['src/features/users/user.model.ts', 'src/hub/router.ts']) {
      const statement = `import type { A } from '../../../${to}'`;
      expect(rules.aroundTheDoor(pair(from, statement, to))).to.deep.equal([`${from} → ${to}`]);
    }
  });

  it('find a way around the doors in the list of all features', () => {
    const graph = pair(
      'src/features/index.ts',
      `import './users/user.routes.ts'`,
      'src/features/users/user.routes.ts',
    );
    expect(rules.aroundTheDoor(graph)).to.have.length(1);
  });

  it('find a way up in the agent, between two of its capabilities, and a file in none of its rooms', () => {
    const ways = [
      ['src/agent/os/files/a.ts', `import '../../core/b.ts'`, 'src/agent/core/b.ts'],
      ['src/agent/work/a.ts', `import '../capabilities/scripts/b.ts'`, 'src/agent/capabilities/scripts/b.ts'],
      [
        'src/agent/capabilities/x/a.ts',
        `import type { B } from '../y/b.ts'`,
        'src/agent/capabilities/y/b.ts',
      ],
      ['src/agent/capabilities/x.ts', `import type { B } from './y.ts'`, 'src/agent/capabilities/y.ts'],
      ['src/agent/helpers/a.ts', `import '../os/b.ts'`, 'src/agent/os/b.ts'],
    ] as const;
    for (const [from, statement, to] of ways) {
      expect(rules.upwardInAgent(pair(from, statement, to))).to.deep.equal([`${from} → ${to}`]);
    }
    const down = pair('src/agent/cli/a.ts', `import '../os/files/b.ts'`, 'src/agent/os/files/b.ts');
    expect(rules.upwardInAgent(down)).to.deep.equal([]);
  });

  it('find a way around a door that lies deeper, and allow files to use those around their own door', () => {
    const files = {
      'src/features/backup/index.ts': `import './images/index.ts'; import './plan.ts'`,
      'src/features/backup/plan.ts': `import './images/image.ts'`,
      'src/features/backup/images/index.ts': `import './image.ts'; import '../size.ts'`,
      'src/features/backup/images/image.ts': '',
      'src/features/backup/size.ts': '',
    };
    expect(rules.aroundTheDoor(plant(files))).to.deep.equal([
      'src/features/backup/plan.ts → src/features/backup/images/image.ts',
    ]);
    const outside = { ...files, 'src/server.ts': `import './features/backup/images/index.ts'` };
    expect(rules.aroundTheDoor(plant(outside))).to.include(
      'src/server.ts → src/features/backup/images/index.ts',
    );
  });

  it('find more ways around a door than are listed', () => {
    const graph = (count: number) =>
      plant(
        Object.fromEntries(
          Array.from({ length: count }, (_, at) => [
            [`src/cli/audit/${at}.ts`, `import '../../features/audit/${at}.ts'`],
            [`src/features/audit/${at}.ts`, ''],
          ]).flat(),
        ),
      );
    expect(rules.aroundTheDoor(graph(10))).to.deep.equal([]);
    expect(rules.aroundTheDoor(graph(11))).to.have.length(11);
  });

  it('find folders that need each other although their files do not', () => {
    const graph = plant({
      'src/hub/agents/link.ts': `import type { Actor } from '../device/actor.ts'`,
      'src/hub/agents/wire/frame.ts': '',
      'src/hub/device/actor.ts': '',
      'src/hub/device/heartbeat.ts': `import '../agents/wire/frame.ts'`,
      'src/hub/index.ts': `import './agents/link.ts'; import './device/actor.ts'`,
    });
    expect(rules.cycles(graph)).to.deep.equal([]);
    expect(rules.roomCircles(graph)).to.deep.equal(['src/hub: agents → device → agents']);
  });

  it('find a way up in the dashboard, and a file in none of its rooms', () => {
    const faults = [
      pair(
        'src/dashboard/ui/page.tsx',
        `import '../features/sites/index.ts'`,
        'src/dashboard/features/sites/index.ts',
      ),
      pair('src/dashboard/api/client.ts', `import '../session.ts'`, 'src/dashboard/session.ts'),
      pair('src/dashboard/features/sites/a.tsx', `import '../../app/app.tsx'`, 'src/dashboard/app/app.tsx'),
      pair('src/dashboard/other/a.tsx', `import '../ui/index.ts'`, 'src/dashboard/ui/index.ts'),
    ];
    for (const graph of faults) expect(rules.upwardInDashboard(graph)).to.have.length(1);
    const around = pair(
      'src/dashboard/features/sites/a.tsx',
      `import '../devices/b.tsx'`,
      'src/dashboard/features/devices/b.tsx',
    );
    expect(rules.aroundTheDoor(around)).to.have.length(1);
    const fine = pair(
      'src/dashboard/features/sites/a.tsx',
      `import '../../ui/index.ts'`,
      'src/dashboard/ui/index.ts',
    );
    expect(rules.upwardInDashboard(fine)).to.deep.equal([]);
  });

  it('find a package away from its home, by a deep path and as a type too', () => {
    for (const name of ['express', 'socket.io', 'ioredis', 'knex']) {
      const graph = plant({ 'src/features/a/index.ts': `import type { A } from '${name}/lib/deep.js'` });
      expect(rules.awayFromHome(graph)).to.have.length(1);
    }
  });

  it('find every way to the environment', () => {
    const ways = [
      'process.env.PORT',
      `process['env']`,
      'globalThis.process.env',
      'const { env } = process',
      `import { env } from 'node:process'`,
      `import process from 'process'`,
    ];
    for (const text of ways) {
      expect(rules.environmentReaders(plant({ 'src/hub/a.ts': text })), text).to.have.length(1);
    }
    expect(rules.environmentReaders(plant({ 'src/hub/a.ts': '// process.env\nprocess.pid' }))).to.deep.equal(
      [],
    );
  });

  it('find a cycle, through types and from any length, and show the way', () => {
    const graph = plant({
      'src/hub/a.ts': `import './b.ts'`,
      'src/hub/b.ts': `import type { C } from './c.ts'`,
      'src/hub/c.ts': `export * from './a.ts'; import './c.ts'`,
      'src/hub/d.ts': `import './a.ts'`,
    });
    expect(rules.cycles(graph)).to.deep.equal(['src/hub/a.ts → src/hub/b.ts → src/hub/c.ts → src/hub/a.ts']);
    expect(rules.cycles(plant({ 'src/hub/a.ts': `import './a.ts'` }))).to.deep.equal([
      'src/hub/a.ts → src/hub/a.ts',
    ]);
  });

  it('find an import that leads nowhere, and one that is computed', () => {
    const graph = plant({
      'src/hub/a.ts': `import './missing.ts'; import './b.js'; await import(name)`,
      'src/hub/b.ts': '',
    });
    expect(rules.unresolved(graph)).to.have.length(3);
  });
});
