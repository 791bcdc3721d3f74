export {
  OF_PROVIDER,
  ownerBody,
  useFirstOwner,
  useOwnerChoice,
  useOwnerName,
  useSeesProvider,
} from './owner.ts';
