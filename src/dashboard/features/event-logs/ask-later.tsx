import { IconClockPlus } from '@tabler/icons-react';
import { useDisclosure } from '@mantine/hooks';
import { useNavigate } from '@tanstack/react-router';
import { useApiChange } from '../../api/index.ts';
import { Action, formatCount, FormDialog, useForm } from '../../ui/index.ts';
import type { DeviceConditions } from './log-filter.ts';

/** A query as devices were asked it. */
export interface AskedQuery {
  name: string;
  conditions: DeviceConditions;
  limit: number;
}

const DAYS_MAX = 30;

/** Makes a standing question of a query for the devices that were not connected. */
export function AskLater({
  deviceIds,
  orgId,
  asked,
}: {
  deviceIds: readonly string[];
  /** The organization of all of them, if they are of one. */
  orgId: string | undefined;
  asked: AskedQuery;
}) {
  const [isOpen, { open, close }] = useDisclosure(false);
  return (
    <>
      <Action icon={IconClockPlus} onClick={open}>
        Ask them when they come back
      </Action>
      {isOpen && <AskLaterDialog deviceIds={deviceIds} orgId={orgId} asked={asked} onClose={close} />}
    </>
  );
}

function AskLaterDialog({
  deviceIds,
  orgId,
  asked: { name: log, conditions, limit },
  onClose,
}: Parameters<typeof AskLater>[0] & { onClose: () => void }) {
  const navigate = useNavigate();
  const form = useForm({ name: '', days: 7 });
  const ask = useApiChange('POST /event-log-questions', { refreshes: ['GET /event-log-questions'] });
  const submit = async () => {
    const { name, days } = form.values;
    const { id } = await ask.mutateAsync({
      body: {
        ...(orgId === undefined ? {} : { orgId }),
        ...(name.trim() === '' ? {} : { name: name.trim() }),
        target: { deviceIds: [...deviceIds] },
        query: { name: log, ...conditions },
        days,
        atMostRowsPerDevice: limit,
      },
    });
    await navigate({ to: '/event-logs/questions', search: { question: id } });
  };
  return (
    <FormDialog
      title={`Ask ${formatCount(deviceIds.length)} ${deviceIds.length === 1 ? 'device' : 'devices'} later`}
      onClose={onClose}
      submit={submit}
      submitLabel="Ask when they come back"
      form={form}
      fields={[
        { name: 'name', label: 'Name', maxLength: 100, placeholder: `Entries of ${log}` },
        {
          name: 'days',
          label: 'Wait for them',
          kind: 'number',
          min: 1,
          max: DAYS_MAX,
          suffix: ' days',
          required: true,
          description: 'Each device gets the same query soon after it connects. What it answers is stored.',
        },
      ]}
    />
  );
}
