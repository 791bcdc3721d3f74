import { Autocomplete, Text, TextInput } from '@mantine/core';
import { ChainFields } from './chain-fields.tsx';
import type { Between, SourceFieldProps, SqlForm } from './source-form.ts';
import { useInstances } from './use-instances.ts';

const BETWEEN: readonly Between[] = ['log', 'differential', 'none'];

/** One database of SQL Server. */
export function SqlServerFields({ form, set, faultOf }: SourceFieldProps) {
  const { sql } = form;
  const change = (next: Partial<SqlForm>) => set({ sql: { ...sql, ...next } });
  const found = useInstances(form.orgId, 'mssql');
  const databases = found
    .filter(({ instance }) => instance === sql.instance)
    .flatMap((each) => each.databases.map(({ name }) => name));
  return (
    <>
      <Autocomplete
        label="Instance"
        required
        description="As the page “Databases” lists it. The default instance is called MSSQLSERVER."
        data={[...new Set(found.map(({ instance }) => instance))]}
        value={sql.instance}
        onChange={(instance) => change({ instance })}
        error={faultOf('instance')}
      />
      <Autocomplete
        label="Database"
        required
        description="Each database has a chain of its own, and so a configuration of its own."
        data={[...new Set(databases)]}
        value={sql.database}
        onChange={(database) => change({ database })}
        error={faultOf('database')}
      />
      <TextInput
        label="Folder for backups on their way"
        required
        description="A folder of the device which the service of SQL Server writes to and the agent reads. It has to hold one whole backup."
        placeholder={String.raw`D:\Spool`}
        value={sql.spoolPath}
        onChange={(event) => change({ spoolPath: event.currentTarget.value })}
        error={faultOf('spoolPath')}
      />
      <ChainFields chain={sql} set={change} offered={BETWEEN} faultOf={faultOf} />
      {sql.between === 'log' && (
        <Text size="sm">Logs need the recovery model “full” or “bulk-logged” of the database.</Text>
      )}
    </>
  );
}
