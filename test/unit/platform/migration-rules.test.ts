import { expect } from 'chai';
import type pg from 'pg';
import { isOnline, onlineStatements, runOnline } from '../../../src/platform/db/migrations.ts';
import { BIG_TABLES, breachesOf, statementsOf } from '../../contract/migration-rules.ts';

const rulesOf = (sql: string) => breachesOf(sql).map((breach) => breach.slice(0, breach.indexOf(':')));

describe('the statements of a migration', () => {
  it('are separated by semicolons, without comments and the bodies of functions', () => {
    expect(
      statementsOf(
        `-- a comment; with a semicolon
        alter table sites   add code text; -- at the end
        create function f() returns int as $body$ begin return 1; end $body$ language plpgsql;
        do $$ begin drop table sites; end $$;
        select '1';;  `,
      ),
    ).to.deep.equal([
      'alter table sites add code text',
      "create function f() returns int as '' language plpgsql",
      "do ''",
      "select '1'",
    ]);
  });
});

describe('a migration that would stop a fleet', () => {
  const INDEX = 'builds an index of a big table without "concurrently", so writing to it waits';
  const WRITES = 'writes all rows of a big table in one transaction';
  const LOCKS = 'locks a whole table';
  const NOT_NULL = 'adds a column "not null" without a default, so the release before cannot write';
  const STORED = 'adds a stored generated column, so the table is rewritten';
  const TYPE = 'changes the type of a column, so the table is rewritten';
  const SET_NOT_NULL = 'sets a column "not null", so the table is read under a lock';
  const CONSTRAINT = 'adds a constraint without "not valid", so the table is read under a lock';
  const KEY = 'adds a key together with its column, which cannot be "not valid"';
  const AWAY = 'takes away what the release before uses';
  for (const [sql, ...rules] of [
    ['create index i on devices (id)', INDEX],
    ['create unique index i on only public.devices (id)', INDEX],
    ['CREATE INDEX i ON "devices" (id)', INDEX],
    ['create index i on sites (id)'],
    ['create index concurrently i on devices (id)'],
    ['create index i on devices_of_another_kind (id)'],
    ['update devices set hostname = 1', WRITES],
    ['delete from only public.audit_logs', WRITES],
    ['update sites set name = 1'],
    ['truncate sites', LOCKS],
    ['lock table sites', LOCKS],
    ['vacuum full sites', LOCKS],
    ['cluster sites', LOCKS],
    ["comment on table sites is 'cluster'"],
    ['alter table sites add column code text not null', NOT_NULL],
    ['alter table sites add code text not null', NOT_NULL],
    ["alter table sites add code text not null default ''"],
    ['alter table sites add id int not null generated always as identity'],
    ['alter table sites add code text generated always as (name || 1) stored', STORED],
    ['alter table sites alter name type int', TYPE],
    ['alter table sites alter column "name" set data type int', TYPE],
    ['alter table if exists only sites alter column name set not null', SET_NOT_NULL],
    ['alter table sites alter name set not null', SET_NOT_NULL],
    ['alter table sites add foreign key (org_id) references orgs (id)', CONSTRAINT],
    ['alter table sites add constraint long_name check (true)', CONSTRAINT],
    ['alter table sites add constraint long_name check (true) not valid'],
    ['alter table sites add code text references codes (id)', KEY],
    ['alter table sites drop column code', AWAY],
    ['alter table sites rename to places', AWAY],
    ['alter table sites rename column a to b', AWAY],
  ] as const) {
    it(`${rules.length === 0 ? 'is not' : 'is'} ${sql}`, () => {
      expect(rulesOf(sql)).to.deep.equal(rules);
    });
  }

  it('is looked at in each part of a statement, of which one may have several faults', () => {
    expect(
      rulesOf(`alter table sites add a numeric(10, 2) not null, add b text references codes (id),
        drop column c, add d numeric(4,(2)) default 1`),
    ).to.deep.equal([NOT_NULL, KEY, AWAY]);
    expect(rulesOf('alter table sites add code text not null references codes (id)')).to.deep.equal([
      NOT_NULL,
      KEY,
    ]);
  });

  it('may do everything to a table that it makes itself', () => {
    expect(
      rulesOf(`create table if not exists places (id int); alter table places add code text not null;
        create table towns (id int); alter table only towns rename to cities; alter table sites rename to s`),
    ).to.deep.equal([AWAY]);
    expect(rulesOf('select 1 as "create table x"; alter table x rename to y')).to.deep.equal([AWAY]);
  });

  it('is named by its statement, cut to 120 characters', () => {
    expect(breachesOf('truncate sites')).to.deep.equal([`${LOCKS}: truncate sites`]);
    expect(breachesOf(`truncate ${'x'.repeat(200)}`)[0]).to.have.length(LOCKS.length + 2 + 120);
  });

  it('is one that touches any of the tables that grow', () => {
    expect(BIG_TABLES.map((table) => rulesOf(`create index i on ${table} (id)`)).flat()).to.deep.equal(
      BIG_TABLES.map(() => INDEX),
    );
  });
});

describe('an online migration', () => {
  it('says so in its first line, alone', () => {
    expect(isOnline('-- online\nselect 1')).to.equal(true);
    expect(isOnline('-- online  \nselect 1')).to.equal(true);
    for (const sql of [
      '-- onlinex\nselect 1',
      '-- a\n-- online\nselect 1',
      'x -- online\nselect 1',
      'select 1',
    ]) {
      expect(isOnline(sql), sql).to.equal(false);
    }
  });

  it('has only statements that block no others and can be repeated', () => {
    const sql = `-- online
      create unique index concurrently if not exists a on devices (id); -- one
      drop index concurrently if exists b;
      alter table devices
        validate constraint c;`;
    expect(onlineStatements('0001_a.sql', sql)).to.deep.equal([
      'create unique index concurrently if not exists a on devices (id)',
      'drop index concurrently if exists b',
      'alter table devices validate constraint c',
    ]);
    for (const statement of [
      'create index concurrently a on devices (id)',
      'create index if not exists a on devices (id)',
      'drop index if exists b',
      'alter table devices validate constraint c, drop column d',
      'x alter table devices validate constraint c',
      'x drop index concurrently if exists b',
      'x create index concurrently if not exists a on devices (id)',
      'select 1',
    ]) {
      expect(() => onlineStatements('0001_a.sql', statement), statement).to.throw(
        `Migration 0001_a.sql is online, so it may only have "create index concurrently if not exists", "drop index concurrently if exists" and "alter table ... validate constraint", but it has: ${statement}`,
      );
    }
  });

  describe('runs', () => {
    let queries: string[];
    let unfinished: string[];
    let failing: string | undefined;
    const connection = {
      async query(sql: string, values?: string[]) {
        queries.push(values === undefined ? sql : `${sql} ${values.join()}`);
        if (sql === failing) throw new Error('it failed');
        return { rows: unfinished.includes(values?.[0] ?? '') ? [{}] : [] };
      },
    } as unknown as pg.ClientBase;
    const LOOK = 'select from pg_index where indexrelid = to_regclass($1) and not indisvalid';
    const CREATE = 'create index concurrently if not exists "a" on devices (id)';
    const VALIDATE = 'alter table devices validate constraint c';
    const BEGIN = ['set lock_timeout = 0', 'set statement_timeout = 0'];
    const END = ['reset lock_timeout', 'reset statement_timeout'];
    beforeEach(() => {
      [queries, unfinished, failing] = [[], [], undefined];
    });

    it('without time limits, which stand again afterwards', async () => {
      await runOnline(connection, [CREATE, VALIDATE]);
      expect(queries).to.deep.equal([...BEGIN, `${LOOK} a`, CREATE, VALIDATE, ...END]);
    });

    it('after it has removed an index whose build was interrupted', async () => {
      unfinished = ['a'];
      await runOnline(connection, [CREATE]);
      expect(queries).to.deep.equal([
        ...BEGIN,
        `${LOOK} a`,
        'drop index concurrently if exists "a"',
        CREATE,
        ...END,
      ]);
    });

    it('and has its time limits again also when a statement fails', async () => {
      failing = CREATE;
      const error = await runOnline(connection, [CREATE, VALIDATE]).catch((thrown: unknown) => thrown);
      expect((error as Error).message).to.equal('it failed');
      expect(queries).to.deep.equal([...BEGIN, `${LOOK} a`, CREATE, ...END]);
    });
  });
});
