"""Networks in plain torch, shared by the policies that sample from them and the trainers that change them."""
