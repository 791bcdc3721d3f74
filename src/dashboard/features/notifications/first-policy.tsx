import { Group } from '@mantine/core';
import { IconMail } from '@tabler/icons-react';
import { useState } from 'react';
import { useApiChange } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useMe, useRefusal } from '../../session.ts';
import { Action, Empty, FormDialog, Loading, useForm } from '../../ui/index.ts';
import { ownerBody, useFirstOwner, useOwnerChoice, useSeesProvider } from '../owners/index.ts';
import { CHANNEL_READS, POLICY_READS } from './reads.ts';

/** Stands where there is no policy: says what that means, and makes the first one. */
export function FirstPolicy({ onCreate }: { onCreate: () => void }) {
  const refusal = useRefusal('organizations:write');
  const seesProvider = useSeesProvider();
  const { orgId } = useScope();
  const names = useNames();
  const [isOpen, setOpen] = useState(false);
  if (seesProvider === undefined) return <Loading what="Reading policies" />;
  const whose = orgId === undefined ? '' : ` of ${names.organization(orgId)}`;
  return (
    <>
      <Empty
        title={seesProvider ? `Nobody is told of alerts${whose}` : 'There are no policies of your own'}
        action={
          <Group gap="xs" justify="center">
            <Action refusal={refusal} icon={IconMail} onClick={() => setOpen(true)}>
              Tell somebody by mail
            </Action>
            <Action variant="default" refusal={refusal} onClick={onCreate}>
              New policy
            </Action>
          </Group>
        }
      >
        {seesProvider
          ? 'Alerts are listed under Alerts, but no message is sent. A policy says who is told of which alerts, and who next if nobody acknowledges them.'
          : 'Your provider may be told of your alerts by policies that you do not see. A policy of your own says who is told of which alerts. It comes first: those of your provider take what yours do not.'}
      </Empty>
      {isOpen && <FirstPolicyDialog onClose={() => setOpen(false)} />}
    </>
  );
}

const SEVERITIES = ['critical', 'high'] as const;
const REPEAT_MINUTES = 60;

/** Makes a mail channel, and a policy that tells it of critical and high alerts. */
function FirstPolicyDialog({ onClose }: { onClose: () => void }) {
  const me = useMe();
  const firstOwner = useFirstOwner();
  const ownerChoice = useOwnerChoice();
  const form = useForm<{ owner: string | undefined; address: string }>({
    owner: undefined,
    address: me.user.email,
  });
  const { owner = firstOwner, address } = form.values;
  const [made, setMade] = useState<{ of: string; id: string }>();
  const createChannel = useApiChange('POST /notification-channels', { refreshes: CHANNEL_READS });
  const createPolicy = useApiChange('POST /notification-policies', { refreshes: POLICY_READS });
  const submit = async () => {
    const of = `${owner} ${address}`;
    // The channel is there already if only the policy was refused before.
    const id = made?.of === of ? made.id : await makeChannel();
    setMade({ of, id });
    await createPolicy.mutateAsync({
      body: {
        ...ownerBody(owner),
        name: 'Critical and high alerts',
        match: { severities: [...SEVERITIES] },
        steps: [{ afterMinutes: 0, channelIds: [id] }],
        repeatEveryMinutes: REPEAT_MINUTES,
      },
    });
  };
  const makeChannel = async () => {
    const channel = await createChannel.mutateAsync({
      body: { ...ownerBody(owner), name: `Mail to ${address}`, type: 'email', details: { address } },
    });
    return channel.id;
  };
  return (
    <FormDialog
      title="Tell somebody by mail"
      onClose={onClose}
      submit={submit}
      submitLabel="Create channel and policy"
      form={form}
      fields={[
        {
          note: 'what',
          text: 'Critical and high alerts are sent to this address at once, and again each hour until somebody acknowledges them. Everything can be changed afterwards.',
        },
        {
          name: 'address',
          fault: 'details.address',
          kind: 'email',
          label: 'Address',
          required: true,
          maxLength: 255,
        },
        ownerChoice && {
          ...ownerChoice,
          label: 'For alerts of',
          shown: owner,
          empty: undefined,
        },
      ]}
    />
  );
}
