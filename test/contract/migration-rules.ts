/**
 * What a migration may not do, because it would lock out a fleet that is at work, or what runs on the new schema is also
 * the release before (docs/decisions/migrations.md). Each rule answers with its breaches, as lines.
 */

/** Those that every device, command or deed writes to, or that hold a row for each. */
export const BIG_TABLES = [
  'agent_logs',
  'alerts',
  'audit_logs',
  'command_transitions',
  'commands',
  'device_event_logs',
  'device_group_members',
  'device_presence',
  'device_search_facts',
  'device_services',
  'device_software',
  'devices',
  'diagnostic_logs',
  'event_logs',
  'metric_days',
  'metric_hours',
  'metric_minutes',
  'metric_quarters',
  'metric_samples',
  'presence_changes',
  'software_changes',
];

const BIG = `(?:public\\.)?"?(?:${BIG_TABLES.join('|')})"?`;

/** The statements of a file, without comments; a function's body is left out, since it runs later. */
export function statementsOf(sql: string): string[] {
  return sql
    .replaceAll(/--.*$/gm, '')
    .replaceAll(/\$(\w*)\$[\s\S]*?\$\1\$/g, "''")
    .split(';')
    .map((statement) => statement.replaceAll(/\s+/g, ' ').trim())
    .filter((statement) => statement !== '');
}

/** The parts of an `alter table` that are separated by commas outside of parentheses. */
function partsOf(statement: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let part = '';
  for (const character of statement) {
    if (character === '(') depth += 1;
    if (character === ')') depth -= 1;
    if (character === ',' && depth === 0) {
      parts.push(part);
      part = '';
    } else part += character;
  }
  return [...parts, part].map((one) => one.trim());
}

export function breachesOf(sql: string): string[] {
  const statements = statementsOf(sql);
  const made = new Set(
    statements.flatMap((statement) => /^create table (?:if not exists )?(\w+)/i.exec(statement)?.[1] ?? []),
  );
  return statements.flatMap((statement) => {
    const [, table] = /^alter table (?:if exists )?(?:only )?(\w+)/i.exec(statement) ?? [];
    // A table that the same file makes is empty, and nobody waits for it.
    const breaches =
      table === undefined || made.has(table) ? [] : partsOf(statement).flatMap((part) => breachOfPart(part));
    return [...breaches, ...breachOfStatement(statement, made)].map(
      (what) => `${what}: ${statement.slice(0, 120)}`,
    );
  });
}

function breachOfStatement(statement: string, made: ReadonlySet<string>): string[] {
  const breaches: string[] = [];
  const [, indexed = ''] = / on (?:only )?(\w+)/i.exec(statement) ?? [];
  if (
    !made.has(indexed) &&
    new RegExp(`^create (?:unique )?index (?!concurrently).* on (?:only )?${BIG}\\b`, 'i').test(statement)
  ) {
    breaches.push('builds an index of a big table without "concurrently", so writing to it waits');
  }
  if (new RegExp(`^(?:update|delete from) (?:only )?${BIG}\\b`, 'i').test(statement)) {
    breaches.push('writes all rows of a big table in one transaction');
  }
  if (/^(?:vacuum full|cluster|truncate|lock table)\b/i.test(statement)) {
    breaches.push('locks a whole table');
  }
  return breaches;
}

function breachOfPart(part: string): string[] {
  const breaches: string[] = [];
  const addsColumn = /\badd (?:column )?(?!constraint|foreign|check|unique|primary|exclude)/i.test(part);
  if (addsColumn && /\bnot null\b/i.test(part) && !/\bdefault\b|\bgenerated\b/i.test(part)) {
    breaches.push('adds a column "not null" without a default, so the release before cannot write');
  }
  if (addsColumn && /\bgenerated always as \(.*\bstored\b/i.test(part)) {
    breaches.push('adds a stored generated column, so the table is rewritten');
  }
  if (/\balter (?:column )?"?\w+"? (?:set data )?type\b/i.test(part)) {
    breaches.push('changes the type of a column, so the table is rewritten');
  }
  if (/\balter (?:column )?"?\w+"? set not null\b/i.test(part)) {
    breaches.push('sets a column "not null", so the table is read under a lock');
  }
  if (/\badd (?:constraint \w+ )?(?:foreign key|check)\b/i.test(part) && !/\bnot valid\b/i.test(part)) {
    breaches.push('adds a constraint without "not valid", so the table is read under a lock');
  }
  if (addsColumn && /\breferences\b/i.test(part)) {
    breaches.push('adds a key together with its column, which cannot be "not valid"');
  }
  if (/\b(?:drop column|rename)\b/i.test(part)) {
    breaches.push('takes away what the release before uses');
  }
  return breaches;
}
