import { Group, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { useApiChange } from '../../../api/index.ts';
import { Failure, Panel } from '../../../ui/index.ts';
import { CommandStanding } from '../parts/command-standing.tsx';
import { BACKUP_TYPE_NAMES } from '../parts/database-names.ts';
import { stepBody, type ChainOrder } from './restore-path.ts';
import { clockText, type SqlSource } from './sql-parts.ts';

/** A restore of several backups, of which the first was sent. It sends each of the others when its turn has come. */
export function SqlChainRun({
  source,
  order,
  firstId,
}: {
  source: SqlSource;
  order: ChainOrder;
  firstId: string;
}) {
  const [ids, setIds] = useState([firstId]);
  const restore = useApiChange('POST /backup/mssql/restore');
  const goOn = () =>
    restore.mutate(
      { body: stepBody(source, order, ids.length) },
      { onSuccess: ({ id }) => setIds((sent) => [...sent, id]) },
    );
  const isWaiting = ids.length < order.path.length;
  return (
    <Panel title={`Restore of ${order.targetDatabase}`}>
      <Stack gap="xs">
        {isWaiting && (
          <Text size="sm">
            Keep this open. Where it ends early, the database waits, and you can go on with the next backup
            below.
          </Text>
        )}
        {order.path.map(({ backupType, finishedAt }, step) => {
          const id = ids[step];
          const isNewest = step === ids.length - 1;
          return (
            <Group key={`${step} ${finishedAt}`} gap="xs">
              <Text size="sm" fw={600}>
                {step + 1}. {BACKUP_TYPE_NAMES[backupType]} of {clockText(finishedAt)}
              </Text>
              {id === undefined ? (
                <Text size="sm">Not sent yet</Text>
              ) : (
                <CommandStanding
                  id={id}
                  deviceId={source.deviceId}
                  {...(isNewest && isWaiting ? { onDone: goOn } : {})}
                />
              )}
            </Group>
          );
        })}
        {restore.error !== null && <Failure error={restore.error} retry={goOn} />}
      </Stack>
    </Panel>
  );
}
