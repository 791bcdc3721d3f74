import { Select, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange } from '../../../api/index.ts';
import { FormDialog, formatCounted } from '../../../ui/index.ts';
import { BACKUP_TYPE_NAMES } from '../parts/database-names.ts';
import { noRestore, pathTo, setsOf, stepBody, type Chain, type ChainOrder } from './restore-path.ts';
import { clockText, type SqlSet, type SqlSource } from './sql-parts.ts';
import { NoRecoveryField, StopAtField } from './restore-fields.tsx';

const isRestorable = ({ path }: { path: readonly SqlSet[] }): boolean =>
  path.every((set) => noRestore(set) === undefined);

/** Restores a new database up to a backup of a chain, or to a time within its last log. Sends the first step. */
export function SqlChainDialog({
  chain,
  source,
  onBegun,
  onClose,
}: {
  chain: Chain;
  source: SqlSource;
  /** The first step was sent, by this command. */
  onBegun: (order: ChainOrder, firstId: string) => void;
  onClose: () => void;
}) {
  const ends = setsOf(chain).map((set) => ({ set, path: pathTo(chain, set) }));
  const [target, setTarget] = useState(`${source.database}_restored`);
  const [place, setPlace] = useState(() => ends.findLastIndex(isRestorable));
  const [stopAt, setStopAt] = useState('');
  const [noRecovery, setNoRecovery] = useState(false);
  const restore = useApiChange('POST /backup/mssql/restore');
  const { set: end, path } = ends[place] ?? { set: chain.full, path: [chain.full] };
  const submit = async () => {
    const order = { path, targetDatabase: target.trim(), stopAt, noRecovery };
    const { id } = await restore.mutateAsync({ body: stepBody(source, order, 0) });
    onBegun(order, id);
  };
  return (
    <FormDialog
      title={`Restore ${source.database} with its chain`}
      size="lg"
      opened
      onClose={onClose}
      submitLabel="Restore"
      submit={submit}
    >
      {(faults) => (
        <>
          <TextInput
            label="New database"
            required
            description="A new name: nothing that is there is replaced."
            value={target}
            onChange={(event) => setTarget(event.currentTarget.value)}
            error={faults['targetDatabase']}
            data-autofocus
          />
          <Select
            label="With everything up to"
            allowDeselect={false}
            description="What needs a backup whose file is not known cannot be chosen."
            data={ends.map((each, at) => ({
              value: String(at),
              label: `${BACKUP_TYPE_NAMES[each.set.backupType]} of ${clockText(each.set.finishedAt)}`,
              disabled: !isRestorable(each),
            }))}
            value={String(place)}
            onChange={(next) => setPlace(Number(next ?? place))}
          />
          {end.backupType === 'log' && (
            <StopAtField value={stopAt} onChange={setStopAt} error={faults['stopAt']} />
          )}
          <NoRecoveryField value={noRecovery} onChange={setNoRecovery} error={faults['noRecovery']} />
          <Text size="sm">
            {formatCounted(path.length, 'backup')} {path.length === 1 ? 'is' : 'are'} restored, each when the
            one before has succeeded.
          </Text>
        </>
      )}
    </FormDialog>
  );
}
