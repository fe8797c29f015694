"""What is best for one vpod, found without the policy that is tested: by trying all, and by a flow of least cost."""
